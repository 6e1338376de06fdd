"""Parallel text as training data: two files, one sentence a line, in the same order."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from itertools import islice, zip_longest
from pathlib import Path
from typing import Literal

import numpy as np

from phrasescore.configuration import option
from phrasescore.errors import UserError
from phrasescore.files import display_name, open_input
from phrasescore.pairs import (
    DataConfig,
    PairData,
    PhrasePairs,
    choose_vocabularies,
    finish_sides,
    hash_pairs,
    open_sides,
    orient,
)
from phrasescore.text import LineReader, Say, chunks, lines_of, silently, utf8_lines_of
from phrasescore.tokenisation import tokenise_lines
from phrasescore.vocabulary import Vocabulary
from phrasescore.words import split_words

MeasuredLoss = Literal["teacher-forced", "free-running"]

_LINES_AT_ONCE = 10_000


@dataclass(frozen=True)
class SentenceConfig:
    """What is read from parallel text, and what is measured on sentences that are not learnt from."""

    min_count: int = option(1, "least count of a word that the network knows", minimum=1)
    max_words: int | None = option(
        None,
        "pairs with more words on either side are neither trained on nor held out; to validate on, all stay",
        minimum=1,
    )
    tokenise_source: str | None = option(
        None, "tokenise the source text by sacremoses' rules for this language, English ones where it has none"
    )
    tokenise_target: str | None = option(None, "tokenise the target text likewise")
    bleu_sentences: int = option(
        0, "validation sentences whose greedy translations give BLEU at each evaluation", minimum=0
    )
    measured_loss: MeasuredLoss = option(
        "teacher-forced", "loss on other sentences whose lowest value chooses the weights that are kept"
    )


@dataclass(frozen=True)
class ParallelText:
    """Two files whose lines are translations of each other."""

    source: Path
    target: Path

    def __str__(self) -> str:
        return f"{self.source} and {self.target}"


@dataclass(frozen=True)
class _Chunk:
    """Some pairs of lines, tokenised."""

    source: list[bytes]
    target: list[bytes]
    share_read: float | None
    """The share of the source file read so far."""


def read_sentences(
    text: ParallelText,
    folder: Path,
    data: DataConfig,
    config: SentenceConfig,
    vocabularies: tuple[Vocabulary, Vocabulary] | None = None,
    progress: Callable[[int, float | None], None] = lambda lines, share: None,
    say: Say = silently,
) -> PairData:
    """Read parallel text as ids, without pairs that have an empty side.

    Of text to train on, of which some is held out, the longest pairs are left out, too; text to measure on keeps them.

    Args:
        text: the two files; tokenised, unless the configuration says how to.
        folder: where the ids go, in files without a name; it must exist.
        data: vocabulary sizes, direction.
        config: least counts, longest sentences, tokenisation.
        vocabularies: source and target vocabulary of the network, for text to measure on; None to choose them here.
        progress: called with the lines and the share of the text read so far.
        say: told of lines of a text to train on that are not UTF-8; one to measure on may have none.

    Raises:
        UserError: a file is unreadable or no text, they differ in their number of lines, or no pair is left.
    """
    longest = config.max_words if vocabularies is None else None
    digest = hashlib.sha256()
    lines, kept = 0, 0
    with open_sides(folder) as (source_side, target_side):
        sides = orient((source_side, target_side), data.direction)
        reader = partial(lines_of, say=say) if vocabularies is None else utf8_lines_of
        for chunk in _chunks(text, config, reader):
            lines += len(chunk.source)
            pairs = [pair for pair in zip(chunk.source, chunk.target, strict=True) if _is_wanted(pair, longest)]
            kept += len(pairs)
            weight = np.ones(len(pairs), np.float32)
            hashes = source_side.add([a for a, _ in pairs], weight), target_side.add([b for _, b in pairs], weight)
            digest.update(hash_pairs(*hashes).tobytes())
            progress(lines, chunk.share_read)
        if not kept:
            raise UserError(f"{text}: leave no pairs of sentences to use; give longer texts or a larger --max-words")
        vocabularies = vocabularies or choose_vocabularies(sides, data, config.min_count)
        source, target, words = finish_sides(sides, vocabularies, digest)
    pairs_of_ids = PhrasePairs(source, target, np.broadcast_to(np.float32(1), kept))
    summary = {"lines": lines, "sentence_pairs": kept, **words}
    return PairData(pairs_of_ids, np.arange(kept), *vocabularies, digest.hexdigest(), summary)


def first_sentences(
    text: ParallelText, number: int, data: DataConfig, config: SentenceConfig
) -> tuple[list[bytes], list[bytes]]:
    """Return the first pairs of a text to measure on that have words, as the network's input and output."""
    read = _chunks(text, config, utf8_lines_of)
    pairs = (pair for chunk in read for pair in zip(chunk.source, chunk.target, strict=True))
    first = list(islice((pair for pair in pairs if _is_wanted(pair, None)), number))
    return orient(([source for source, _ in first], [target for _, target in first]), data.direction)


def side_by_side(text: ParallelText) -> Iterator[tuple[bytes, bytes]]:
    """Yield the lines of a text to measure on, source and target.

    Raises:
        UserError: a file cannot be read or has a line that is none, or the files differ in their number of lines.
    """
    return _pairs(_Side(text.source, utf8_lines_of), _Side(text.target, utf8_lines_of))


def _is_wanted(pair: tuple[bytes, bytes], longest: int | None) -> bool:
    lengths = [len(split_words(line)) for line in pair]
    return min(lengths) > 0 and (longest is None or max(lengths) <= longest)


class _Side:
    """The lines of one file.

    It is open here alone, so that what goes wrong in it is not blamed on the other side.
    """

    def __init__(self, path: Path, reader: LineReader) -> None:
        self.path, self._reader = path, reader
        self.share_read: float | None = None

    def __iter__(self) -> Iterator[bytes]:
        with open_input(self.path) as source:
            for number, line in enumerate(self._reader(source.stream, display_name(self.path))):
                if number % _LINES_AT_ONCE == 0:
                    self.share_read = source.share_read()
                yield line


def _chunks(text: ParallelText, config: SentenceConfig, reader: LineReader) -> Iterator[_Chunk]:
    """Yield the lines of both files."""
    source, target = _Side(text.source, reader), _Side(text.target, reader)
    for pairs in chunks(_pairs(source, target), _LINES_AT_ONCE, lambda pair: len(pair[0]) + len(pair[1])):
        sides = [
            list(side) if language is None else tokenise_lines(side, language)
            for side, language in zip(
                zip(*pairs, strict=True), (config.tokenise_source, config.tokenise_target), strict=True
            )
        ]
        yield _Chunk(sides[0], sides[1], source.share_read)


def _pairs(source: _Side, target: _Side) -> Iterator[tuple[bytes, bytes]]:
    """Yield the lines of both files side by side.

    Raises:
        UserError: one file has more than the other.
    """
    for number, (source_line, target_line) in enumerate(zip_longest(source, target), 1):
        if source_line is None or target_line is None:
            shorter, longer = (source.path, target.path) if source_line is None else (target.path, source.path)
            raise UserError(f"{shorter}: ends before line {number} of {longer}; give two files of the same sentences")
        yield source_line, target_line
