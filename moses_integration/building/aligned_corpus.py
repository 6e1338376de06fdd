"""A parallel corpus and its word alignment: the files, and their content as arrays.

Shape suffixes: N words of one text, concatenated; P alignment points.
"""

from __future__ import annotations

import re
from array import array
from collections import defaultdict
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from phrasescore.aligned_phrases import AlignedSentences, parse_points
from phrasescore.errors import UserError
from phrasescore.phrases import Ids, Offsets, offsets_of
from phrasescore.text import lines_abreast
from phrasescore.words import join_words, quote, split_words, word_count

NULL = b"NULL"
"""The empty word in Moses' lexical tables. As in Moses, a word of the text with this spelling is taken for it."""

# `|` separates fields and factors, `[x]` is a label of a hierarchical rule, and Moses splits at tabs. Without control
# characters no byte is smaller than the space, so sorting word sequences is sorting lines.
_MISREAD, _MISREAD_IN_TARGET = (
    re.compile(rb"[|%b\x00-\x1f]|\[(?<![^ ]\[)[^ ]*\](?![^ ])" % more) for more in (b"", b"<")
)
"""Moses' `extract` removes tags, which begin with `<`, from the target side only."""


class Corpus(NamedTuple):
    """The files of a prepared parallel corpus: words separated by spaces, a sentence a line."""

    source: Path
    target: Path
    alignment: Path
    """Pharaoh format, a line for each sentence pair."""

    @classmethod
    def in_folder(cls, folder: Path, name: str, languages: tuple[str, str]) -> Corpus:
        """Return the files NAME.en, NAME.fr, NAME.align of a folder."""
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
        """Id of `NULL`."""
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
        """The positions without the words."""
        return AlignedSentences(self.source.offsets, self.target.offsets, self.source_P, self.target_P)


def reject_misread(line: bytes, path: Path, number: int, *, is_target: bool) -> None:
    """Raise a UserError for a word of a sentence that Moses would misread."""
    misread = _MISREAD_IN_TARGET if is_target else _MISREAD
    if misread.search(line):
        word = next(word for word in line.split(b" ") if misread.search(word))
        raise UserError(
            f"{path}: line {number}: Moses would misread the word `{quote(word)}`; escape `|`, `[`, `]` and `<` as "
            "`&#124;`, `&#91;`, `&#93;` and `&lt;`, and remove tabs and control characters"
        )


def read_aligned_corpus(source: Path, target: Path, alignment: Path) -> AlignedCorpus:
    """Read two tokenised texts and their alignment in Pharaoh format; duplicate points count once.

    Raises:
        UserError: the files differ in length, Moses would misread a word, or an alignment line does not fit.
    """
    texts: tuple[list[bytes], list[bytes]] = ([], [])
    points, line_points = array("i"), array("q")
    lines = enumerate(lines_abreast(source, target, alignment), 1)
    for number, (source_line, target_line, alignment_line) in lines:
        reject_misread(source_line, source, number, is_target=False)
        reject_misread(target_line, target, number, is_target=True)
        pair = join_words(source_line), join_words(target_line)
        texts[0].append(pair[0])
        texts[1].append(pair[1])
        positions = parse_points(alignment_line, alignment, number, (word_count(pair[0]), word_count(pair[1])))
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
