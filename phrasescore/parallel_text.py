"""Parallel text as training data: two files with one sentence per line, in the same order."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Literal

import numpy as np

from phrasescore.aligned_phrases import parse_points
from phrasescore.configuration import setting
from phrasescore.errors import UserError
from phrasescore.files import display_name
from phrasescore.pairs import (
    DataConfig,
    PairData,
    PhraseFile,
    PhrasePairs,
    choose_vocabularies,
    finish_sides,
    input_and_output,
    open_sides,
)
from phrasescore.phrases import Phrases, hash_pairs
from phrasescore.subwords import SubwordVocabulary
from phrasescore.text import (
    Log,
    ProgressCallback,
    chunks,
    counted,
    no_log,
    no_progress,
    parallel_lines,
    report_one_sided,
    text_lines,
    utf8_lines,
)
from phrasescore.vocabulary import Vocabulary
from phrasescore.words import join_words, word_count

MeasuredLoss = Literal["teacher-forced", "free-running"]

_LINES_AT_ONCE = 10_000

_Row = tuple[bytes, bytes, bytes]
"""Source, target, and alignment points, empty without an alignment file."""


@dataclass(frozen=True)
class SentenceConfig:
    """How parallel text becomes training data, and which measures validation uses."""

    subwords: int | None = setting(
        None,
        "size of a joint vocabulary of subwords of both sides, learnt from the text by byte-pair encoding; "
        "without it, the network reads words",
        minimum=3,
    )
    min_count: int = setting(1, "minimum count of a word of the vocabulary", minimum=1)
    max_words: int | None = setting(
        None,
        "exclude pairs with more words on either side from training and held-out data, but not from validation text",
        minimum=1,
    )
    measured_loss: MeasuredLoss = setting(
        "teacher-forced", "the validation loss by which the best checkpoint is selected"
    )


@dataclass(frozen=True, init=False)
class ParallelText:
    """Two files whose lines are translations of each other."""

    source: Path
    target: Path
    alignment: Path | None
    """Their word alignment, in the Pharaoh format."""

    def __init__(self, source: str | Path, target: str | Path, alignment: str | Path | None = None) -> None:
        values = {"source": Path(source), "target": Path(target), "alignment": alignment and Path(alignment)}
        for name, value in values.items():
            object.__setattr__(self, name, value)

    def __str__(self) -> str:
        return f"{display_name(self.source)} and {display_name(self.target)}"


def read_sentences(
    text: ParallelText,
    folder: Path,
    data: DataConfig,
    config: SentenceConfig,
    vocabularies: tuple[Vocabulary, Vocabulary] | None = None,
    progress: ProgressCallback = no_progress,
    log: Log = no_log,
) -> PairData:
    """Read parallel text as ids, without pairs that have an empty side.

    Training excludes pairs longer than `max_words`. Validation text, for which the vocabularies of the network are
    given, keeps all lengths and must be UTF-8. `folder` gets anonymous files of ids.
    """
    longest = config.max_words if vocabularies is None else None
    read = partial(text_lines if vocabularies is None else utf8_lines, log=log)
    digest = hashlib.sha256()
    lines, kept = 0, 0
    with open_sides(folder) as (source_side, target_side), closing(PhraseFile(folder)) as point_file:
        for chunk in chunks(_rows(text, read, log), _LINES_AT_ONCE):
            usable = [(number, *row) for number, row in enumerate(chunk, lines + 1) if _is_usable(row, longest)]
            lines += len(chunk)
            kept += len(usable)
            weight = np.ones(len(usable), np.float32)
            hashes = (
                source_side.add([source for _, source, _, _ in usable], weight),
                target_side.add([target for _, _, target, _ in usable], weight),
            )
            digest.update(hash_pairs(*hashes).tobytes())
            if text.alignment is not None:
                points = Phrases.from_lists(_points_of(*row, text.alignment) for row in usable)
                digest.update(points.lengths.tobytes())
                digest.update(points.ids.tobytes())
                point_file.append(points)
            progress(None, counted(lines, "line"))
        if not kept:
            raise UserError(f"{text}: contain no usable sentence pairs; give longer texts or a larger `max_words`")
        sides = input_and_output((source_side, target_side), data.direction)
        if vocabularies is None and config.subwords is not None:
            counts = sides[0].word_counts() + sides[1].word_counts()
            vocabularies = (SubwordVocabulary.learn(counts, config.subwords),) * 2
        vocabularies = vocabularies or choose_vocabularies(sides, data, config.min_count, log)
        source, target, words = finish_sides(sides, vocabularies, digest)
        alignment = None if text.alignment is None else point_file.phrases()
    pairs = PhrasePairs(source, target, alignment)
    summary = {"lines": lines, "sentence_pairs": kept, **words}
    return PairData(pairs, np.arange(kept), *vocabularies, digest.hexdigest(), summary)


def _rows(text: ParallelText, read: Callable[[str | Path], Iterator[bytes]], log: Log) -> Iterator[_Row]:
    paths = [text.source, text.target, *([] if text.alignment is None else [text.alignment])]
    for source, target, *points in report_one_sided(parallel_lines(*paths, read=read), (text.source, text.target), log):
        yield join_words(source), join_words(target), points[0] if points else b""


def _is_usable(row: _Row, longest: int | None) -> bool:
    lengths = word_count(row[0]), word_count(row[1])
    return min(lengths) > 0 and (longest is None or max(lengths) <= longest)


def _points_of(number: int, source: bytes, target: bytes, line: bytes, path: Path) -> list[int]:
    """Return the alignment points of a line, distinct and sorted, source and target word alternating."""
    words = parse_points(line, path, number, (word_count(source), word_count(target)))
    points = sorted(set(zip(words[::2], words[1::2], strict=True)))
    return [word for point in points for word in point]
