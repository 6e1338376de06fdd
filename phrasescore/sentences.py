"""Parallel text as training data: two files with one sentence per line, in the same order."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from itertools import count, islice, repeat
from pathlib import Path
from typing import Literal, NamedTuple

import numpy as np

from phrasescore.aligned_phrases import parse_points
from phrasescore.configuration import setting
from phrasescore.errors import UsageError, UserError
from phrasescore.files import display_name, open_input
from phrasescore.pairs import (
    DataConfig,
    PairData,
    PhraseFile,
    PhrasePairs,
    choose_vocabularies,
    finish_sides,
    hash_pairs,
    open_sides,
    orient,
)
from phrasescore.phrases import Phrases
from phrasescore.text import (
    LineReader,
    Log,
    ProgressCallback,
    chunks,
    counted,
    lines_abreast,
    lines_of,
    no_log,
    no_progress,
    noting_one_sided,
    utf8_lines_of,
)
from phrasescore.vocabulary import Vocabulary
from phrasescore.words import join_words

MeasuredLoss = Literal["teacher-forced", "free-running"]

_LINES_AT_ONCE = 10_000


@dataclass(frozen=True)
class SentenceConfig:
    """How parallel text becomes training data, and which measures validation uses."""

    min_count: int = setting(1, "minimum count of a word of the vocabulary", minimum=1)
    max_words: int | None = setting(
        None,
        "exclude pairs with more words on either side from training and held-out data, but not from validation text",
        minimum=1,
    )
    bleu_sentences: int = setting(
        0, "validation sentences whose greedy translations give BLEU at each evaluation", minimum=0
    )
    measured_loss: MeasuredLoss = setting(
        "teacher-forced", "the validation loss by which the best checkpoint is selected"
    )

    def check_effect_in_context(self) -> None:
        """Check that no option for whole sentences is set.

        Raises:
            UsageError: an option has no effect in context.
        """
        for name in ("bleu_sentences", "measured_loss"):
            if getattr(self, name) != getattr(SentenceConfig, name):
                raise UsageError(f"`{name}` is for training on whole sentences; leave it out")


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


class _Line(NamedTuple):
    """A line of both files, tokenised, words separated by single spaces."""

    source: bytes
    target: bytes
    points: bytes
    """The word alignment; empty without an alignment file."""
    number: int


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

    Training excludes pairs longer than `max_words`; validation keeps all lengths, and its text must be UTF-8.

    Args:
        text: the files, tokenised.
        folder: an existing folder for the anonymous files of ids.
        data: vocabulary sizes, direction.
        config: minimum count, maximum length.
        vocabularies: the vocabularies of the network, for validation text; None for training text.
        progress: progress callback.
        log: called for unusual lines.
    """
    longest = config.max_words if vocabularies is None else None
    digest = hashlib.sha256()
    lines, kept = 0, 0
    with open_sides(folder) as (source_side, target_side), closing(PhraseFile(folder)) as point_file:
        sides = orient((source_side, target_side), data.direction)
        reader = partial(lines_of if vocabularies is None else utf8_lines_of, log=log)
        for chunk, share_read in _chunks(text, reader, log):
            lines += len(chunk)
            usable = [line for line in chunk if _is_usable(line, longest)]
            kept += len(usable)
            weight = np.ones(len(usable), np.float32)
            hashes = (
                source_side.add([line.source for line in usable], weight),
                target_side.add([line.target for line in usable], weight),
            )
            digest.update(hash_pairs(*hashes).tobytes())
            if text.alignment is not None:
                points = Phrases.from_lists(_points_of(line, text.alignment) for line in usable)
                digest.update(points.lengths.tobytes())
                digest.update(points.ids.tobytes())
                point_file.append(points)
            progress(share_read, counted(lines, "line"))
        if not kept:
            raise UserError(f"{text}: contain no usable sentence pairs; give longer texts or a larger `max_words`")
        vocabularies = vocabularies or choose_vocabularies(sides, data, config.min_count, log)
        source, target, words = finish_sides(sides, vocabularies, digest)
        alignment = None if text.alignment is None else point_file.phrases()
    pairs = PhrasePairs(source, target, np.broadcast_to(np.float32(1), kept), alignment)
    summary = {"lines": lines, "sentence_pairs": kept, **words}
    return PairData(pairs, np.arange(kept), *vocabularies, digest.hexdigest(), summary)


def first_sentences(text: ParallelText, number: int, data: DataConfig) -> tuple[list[bytes], list[bytes]]:
    """Return the first non-empty pairs of a validation text, as the network's input and output."""
    lines = (line for chunk, _ in _chunks(text, utf8_lines_of) for line in chunk)
    first = list(islice((line for line in lines if _is_usable(line, None)), number))
    return orient(([line.source for line in first], [line.target for line in first]), data.direction)


def _is_usable(line: _Line, longest: int | None) -> bool:
    lengths = _length(line.source), _length(line.target)
    return min(lengths) > 0 and (longest is None or max(lengths) <= longest)


def _length(sentence: bytes) -> int:
    return sentence.count(b" ") + 1 if sentence else 0


def _points_of(line: _Line, path: Path) -> list[int]:
    """Return the alignment points of a line, distinct and sorted, source and target word alternating."""
    words = parse_points(line.points, path, line.number)
    points = sorted(set(zip(words[::2], words[1::2], strict=True)))
    source, target = _length(line.source), _length(line.target)
    for a, b in points:
        if a >= source or b >= target:
            raise UserError(
                f"{path}: line {line.number}: the point `{a}-{b}` is outside its sentences of {source} and {target} "
                "words; give the alignment of these two texts, source first"
            )
    return [word for point in points for word in point]


def _chunks(text: ParallelText, reader: LineReader, log: Log = no_log) -> Iterator[tuple[list[_Line], float | None]]:
    """Yield chunks of lines with the share of the source read so far; `log` reports lines with one empty side."""
    share_read: float | None = None

    def read(path: str | Path) -> Iterator[bytes]:
        nonlocal share_read
        # Each generator opens its own file, so that an error names the right one.
        with open_input(path) as source:
            for number, line in enumerate(reader(source.stream, display_name(path))):
                if path == text.source and number % _LINES_AT_ONCE == 0:
                    share_read = source.share_read()
                yield line

    paths = [text.source, text.target, *([] if text.alignment is None else [text.alignment])]
    numbers = count(1)
    names = display_name(text.source), display_name(text.target)
    rows = noting_one_sided(lines_abreast(*paths, read=read), names, log)
    for lines in chunks(rows, _LINES_AT_ONCE, lambda lines: sum(map(len, lines))):
        source, target, *others = zip(*lines, strict=True)
        points = others[0] if others else repeat(b"")
        sides = [[join_words(line) for line in side] for side in (source, target)]
        # `numbers` is the last argument of `map`, so that it advances only if there is a line.
        yield list(map(_Line, *sides, points, numbers)), share_read
