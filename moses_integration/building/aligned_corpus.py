"""A parallel corpus and its word alignment: the files, their checks, and their content as arrays.

Shape suffixes: N words of one text, concatenated; P alignment points.
"""

from __future__ import annotations

import re
from array import array
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from moses_integration.building.language_model import reject_reserved
from phrasescore.aligned_phrases import AlignedSentences, parse_points
from phrasescore.errors import UserError, arg_name, reported_as
from phrasescore.files import open_output
from phrasescore.phrases import Ids, Offsets, offsets_of
from phrasescore.text import Log, counted, no_log, parallel_lines, report_one_sided
from phrasescore.words import join_words, quote, split_words, word_count

NULL = b"NULL"
"""The empty word in Moses' lexical tables. As in Moses, a word of the text with this spelling is taken for it."""

# `|` separates fields and factors, `[x]` is a label of a hierarchical rule, and Moses splits at tabs. Without control
# characters no byte is smaller than the space, so sorting word sequences is sorting lines.
_MISREAD = [re.compile(rb"[|%b\x00-\x1f]|\[(?<![^ ]\[)[^ ]*\](?![^ ])" % more) for more in (b"", b"<")]
"""Of source and target: Moses' `extract` removes tags, which begin with `<`, from the target side only."""

LONGEST_SENTENCE = 80
"""Default of clean-corpus-n.perl, whose rules are used, like the following two."""
_LARGEST_RATIO = 9
_LONGEST_WORD = 1000
_MIN_KEPT = 0.05
"""Share of the pairs that must be fit; with fewer, the texts are not parallel or the sentences too long."""


class Corpus(NamedTuple):
    """The files of a prepared parallel corpus: words separated by spaces, a sentence a line."""

    source: Path
    target: Path
    alignment: Path
    """Pharaoh format, a line for each sentence pair."""

    @classmethod
    def in_folder(cls, folder: Path, name: str, languages: tuple[str, str]) -> Corpus:
        return cls(*(folder / f"{name}.{suffix}" for suffix in (*languages, "align")))


@dataclass(frozen=True)
class Text:
    """One side of a parallel corpus."""

    words: list[bytes]
    """The vocabulary with `NULL`, sorted by bytes, so that ids sort as their words."""
    ids_N: Ids
    offsets: Offsets
    """Sentence i has the words from `offsets[i]` to `offsets[i + 1]`."""
    spelling: NDArray[np.uint8]
    """The bytes of the whole text, each word followed by a space."""
    bytes_N: Offsets
    """[N + 1] The offset of each word in `spelling`, and the end."""

    @property
    def null(self) -> int:
        return self.words.index(NULL)


@dataclass(frozen=True)
class AlignedCorpus:
    """Two texts of equally many sentences, and the alignment points between their words."""

    source: Text
    target: Text
    source_P: Ids
    """Source word of each point, by its position in the whole text. The points are distinct and sorted."""
    target_P: Ids

    @property
    def aligned(self) -> AlignedSentences:
        return AlignedSentences(self.source.offsets, self.target.offsets, self.source_P, self.target_P)


def _reject_misread(pair: Sequence[bytes], paths: Sequence[Path], number: int) -> None:
    for line, path, misread in zip(pair, paths, _MISREAD, strict=True):
        if misread.search(line):
            word = next(word for word in line.split(b" ") if misread.search(word))
            raise UserError(
                f"{path}: line {number}: Moses would misread the word `{quote(word)}`; escape `|`, `[`, `]` and `<` as "
                "`&#124;`, `&#91;`, `&#93;` and `&lt;`, and remove tabs and control characters"
            )


def read_aligned_corpus(source: Path, target: Path, alignment: Path) -> AlignedCorpus:
    """Read two tokenised texts and their alignment in Pharaoh format; duplicate points count once."""
    texts: tuple[list[bytes], list[bytes]] = ([], [])
    points, line_points = array("i"), array("q")
    for number, (*lines, links) in enumerate(parallel_lines(source, target, alignment), 1):
        _reject_misread(lines, (source, target), number)
        pair = [join_words(line) for line in lines]
        texts[0].append(pair[0])
        texts[1].append(pair[1])
        positions = parse_points(links, alignment, number, (word_count(pair[0]), word_count(pair[1])))
        points.extend(positions)
        line_points.append(len(positions) // 2)
    if not line_points:
        raise UserError(f"{source}: is empty; give a text with a sentence in each line")
    sides = _index_words(texts[0]), _index_words(texts[1])
    sentence_P = np.repeat(np.arange(len(line_points)), line_points)
    positions_P2 = np.array(points, np.int64).reshape(-1, 2)
    source_P, target_P = (
        side.offsets[sentence_P] + position_P for side, position_P in zip(sides, positions_P2.T, strict=True)
    )
    # A stable sort is fast, because the points are mostly in order.
    keys_P = np.sort(source_P << 32 | target_P, kind="stable")
    keys_P = keys_P[np.diff(keys_P, prepend=-1) > 0]
    return AlignedCorpus(*sides, (keys_P >> 32).astype(np.int32), (keys_P & 0xFFFFFFFF).astype(np.int32))


def _index_words(lines: list[bytes]) -> Text:
    numbers: defaultdict[bytes, int] = defaultdict(count(1).__next__, {NULL: 0})
    number_N = np.fromiter((numbers[word] for line in lines for word in split_words(line)), np.int32)
    words = sorted(numbers)
    rank = np.empty(len(words), np.int32)
    rank[[numbers[word] for word in words]] = np.arange(len(words))
    ids_N = rank[number_N]
    word_bytes = np.array([len(word) + 1 for word in words])
    lengths = np.array([word_count(line) for line in lines])
    spelling = np.frombuffer(b" ".join([line for line in lines if line] + [b""]), np.uint8)
    return Text(words, ids_N, offsets_of(lengths), spelling, offsets_of(word_bytes[ids_N]))


@dataclass(frozen=True)
class CleaningReport:
    """How many pairs were kept, and how many dropped for each reason."""

    pairs: int
    kept: int
    dropped: Mapping[str, int]

    def __str__(self) -> str:
        reasons = ", ".join(f"{count:,} {reason}" for reason, count in self.dropped.items())
        return f"{self.kept:,} of {counted(self.pairs, 'pair')} kept" + (f" ({reasons})" if reasons else "")


def clean(
    source: Path,
    target: Path,
    clean_source: Path,
    clean_target: Path,
    longest_sentence: int = LONGEST_SENTENCE,
    names: tuple[Path, Path] | None = None,
    log: Log = no_log,
) -> CleaningReport:
    """Copy the sentence pairs of prepared text that are fit for training; `names` are the raw texts, for messages.

    Not for dev and test text, which must keep its lines.
    """
    counts: Counter[str | None] = Counter()
    names = names or (source, target)
    rows = report_one_sided(parallel_lines(source, target), names, log)
    with (
        reported_as({source: names[0], target: names[1]}),
        open_output(clean_source) as source_stream,
        open_output(clean_target) as target_stream,
    ):
        for number, (source_line, target_line) in enumerate(rows, 1):
            fault = _fault(source_line, target_line, longest_sentence)
            counts[fault] += 1
            if fault is None:
                _check_words((source_line, target_line), names, number)
                source_stream.write(source_line + b"\n")
                target_stream.write(target_line + b"\n")
        dropped = {reason: count for reason, count in counts.items() if reason is not None}
        report = CleaningReport(counts.total(), counts[None], dropped)
        if not report.pairs:
            raise UserError(f"{source}: is empty like {target}; give texts whose lines translate each other")
        if report.kept <= _MIN_KEPT * report.pairs:
            raise UserError(
                f"{source}: has too few sentence pairs with {target} that are fit for training: {report}; give texts "
                f"whose lines translate each other, or {arg_name('longest_sentence')}"
            )
    return report


def _fault(source: bytes, target: bytes, longest_sentence: int) -> str | None:
    sides = split_words(source), split_words(target)
    fewer, more = sorted(map(len, sides))
    if fewer == 0:
        return "empty"
    if more > longest_sentence:
        return "too long"
    if more > _LARGEST_RATIO * fewer:
        return "too unequal in length"
    if any(len(word.decode("utf-8", "surrogateescape")) > _LONGEST_WORD for side in sides for word in side):
        return f"with a word of more than {_LONGEST_WORD:,} characters"
    return None


def _check_words(pair: tuple[bytes, bytes], paths: tuple[Path, Path], number: int) -> None:
    """Reject words that no table or language model can have, before the long steps."""
    reject_reserved(pair[1], paths[1], number)
    _reject_misread(pair, paths, number)


def check_same_words(raw: tuple[Path, Path], prepared: tuple[Path, Path], log: Log) -> None:
    """Check text that has an alignment already: preparation must split no word, because the points count words."""
    rows = report_one_sided(parallel_lines(*raw, *prepared), raw, log)
    for number, (*before, source, target) in enumerate(rows, 1):
        for path, old, new in zip(raw, before, (source, target), strict=True):
            words, prepared_words = len(split_words(old)), len(split_words(new))
            if words != prepared_words:
                raise UserError(
                    f"{path}: line {number}: has {words} words but {prepared_words} when prepared, so the alignment "
                    "does not fit; give the tokenised text that was aligned, its words separated by spaces (no-break "
                    f"spaces count, too), and {arg_name('tokenised')}"
                )
        _check_words((source, target), raw, number)
