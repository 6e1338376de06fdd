"""A parallel corpus and its word alignment as arrays.

Shape suffixes: N words of one text, one after another; P alignment points.
"""

from __future__ import annotations

import re
from array import array
from dataclasses import dataclass
from mmap import ACCESS_READ, mmap
from pathlib import Path
from typing import Self

import numpy as np
from numpy.typing import NDArray

from moses_integration.building.stored_arrays import load_array, save_array
from phrasescore.errors import UserError
from phrasescore.extraction.points import parse_points
from phrasescore.extraction.spans import AlignedSentences
from phrasescore.files import full_disk_told
from phrasescore.phrases import Ids, Offsets, offsets_of
from phrasescore.text import lines_abreast
from phrasescore.words import quote, split_words

NULL = b"NULL"
"""What Moses' lexical tables call the empty word; a word of the text that reads so is taken for it, as in Moses."""

# `|` separates fields and factors, `[x]` is a label of a hierarchical rule, and Moses splits at tabs. Without control
# characters sorting words is sorting lines of words: no byte is smaller than the blank.
_MISREAD, _MISREAD_IN_TARGET = (
    re.compile(rb"[|%b\x00-\x1f]|\[(?<![^ ]\[)[^ ]*\](?![^ ])" % more) for more in (b"", b"<")
)
"""Moses' `extract` takes `<` for the beginning of a tag, and leaves the tag out; of the target side only."""


@dataclass(frozen=True)
class Text:
    """One side of a parallel corpus."""

    words: list[bytes]
    """The vocabulary with `NULL`, sorted by bytes: of two words, the one with the smaller id sorts first."""
    ids_N: Ids
    offsets: Offsets
    """Sentence i has the words from `offsets[i]` to `offsets[i + 1]`."""
    spelling: bytes | mmap
    """The whole text, each word followed by a blank."""
    places_N: Offsets
    """Where each word begins in `spelling`, and behind them where it ends."""

    @property
    def null(self) -> int:
        """Id of `NULL`."""
        return self.words.index(NULL)

    @property
    def sentence_N(self) -> NDArray[np.int32]:
        """Return the sentence that each word stands in."""
        return np.repeat(np.arange(len(self.offsets) - 1, dtype=np.int32), np.diff(self.offsets))

    def save(self, folder: Path) -> None:
        """Write the text into a folder, which must exist."""
        for name, content in (("words", b"\n".join(self.words)), ("spelling", self.spelling)):
            with full_disk_told(str(folder / name)):
                (folder / name).write_bytes(content)
        for name in ("ids_N", "offsets", "places_N"):
            save_array(folder, name, getattr(self, name))

    @classmethod
    def load(cls, folder: Path) -> Self:
        """Return the text of a folder, of which only what is looked at comes into memory."""
        ids_N, offsets, places_N = (load_array(folder, name) for name in ("ids_N", "offsets", "places_N"))
        with (folder / "spelling").open("rb") as file:
            # An empty file cannot be mapped.
            spelling = mmap(file.fileno(), 0, access=ACCESS_READ) if len(ids_N) else b""
        return cls((folder / "words").read_bytes().split(b"\n"), ids_N, offsets, spelling, places_N)


@dataclass(frozen=True)
class AlignedCorpus:
    """Two texts of as many sentences, and which of their words are translations of each other."""

    source: Text
    target: Text
    source_P: Ids
    """Source word of each alignment point, by its place in the whole text. The points are distinct and sorted."""
    target_P: Ids
    """Target word of each alignment point."""

    @property
    def sentences(self) -> int:
        """Number of sentence pairs."""
        return len(self.source.offsets) - 1

    @property
    def aligned(self) -> AlignedSentences:
        """The places of words and points alone."""
        return AlignedSentences(self.source.offsets, self.target.offsets, self.source_P, self.target_P)

    def save(self, folder: Path) -> None:
        """Write the corpus into a folder, which must exist."""
        for name in ("source", "target"):
            (folder / name).mkdir()
            getattr(self, name).save(folder / name)
        for name in ("source_P", "target_P"):
            save_array(folder, name, getattr(self, name))

    @classmethod
    def load(cls, folder: Path) -> Self:
        """Return the corpus of a folder, of which only what is looked at comes into memory."""
        texts = Text.load(folder / "source"), Text.load(folder / "target")
        return cls(*texts, load_array(folder, "source_P"), load_array(folder, "target_P"))


def refuse_misread(line: bytes, path: Path, number: int, *, is_target: bool) -> None:
    """Check a sentence; `path` and `number` say where it stands.

    Raises:
        UserError: Moses would misread one of its words.
    """
    misread = _MISREAD_IN_TARGET if is_target else _MISREAD
    if not misread.search(line):
        return
    word = next(word for word in line.split(b" ") if misread.search(word))
    raise UserError(
        f"{path}: line {number}: Moses would misread the word `{quote(word)}`; escape `|`, `[`, `]` and `<` as "
        "`&#124;`, `&#91;`, `&#93;` and `&lt;`, and remove tabs and control characters"
    )


class _Numbering(dict[bytes, int]):
    """Words by the order in which they were first asked for."""

    def __missing__(self, word: bytes) -> int:
        self[word] = number = len(self)
        return number


class _TextBuilder:
    """Collects the sentences of one text."""

    def __init__(self, path: Path, *, is_target: bool = False) -> None:
        self.path, self._is_target = path, is_target
        self._numbering = _Numbering({NULL: 0})
        self._numbers = array("i")
        self._lengths = array("q")
        self._lines: list[bytes] = []

    def add(self, line: bytes) -> None:
        """Add a sentence.

        Raises:
            UserError: Moses would misread one of its words.
        """
        words = split_words(line)
        refuse_misread(line, self.path, len(self._lengths) + 1, is_target=self._is_target)
        self._numbers.extend(map(self._numbering.__getitem__, words))
        self._lengths.append(len(words))
        if words:
            self._lines.append(b" ".join(words))

    def build(self) -> Text:
        """Return the text."""
        words = sorted(self._numbering)
        ranks = np.empty(len(words), np.int32)
        ranks[[self._numbering[word] for word in words]] = np.arange(len(words))
        ids_N = ranks[np.array(self._numbers, np.int32)]
        word_bytes = np.array([len(word) + 1 for word in words])
        spelling = b" ".join([*self._lines, b""])
        return Text(
            words, ids_N, offsets_of(np.array(self._lengths, np.int64)), spelling, offsets_of(word_bytes[ids_N])
        )


def read_aligned_corpus(source: Path, target: Path, alignment: Path) -> AlignedCorpus:
    """Read two tokenised texts, words separated by blanks, and their alignment in Pharaoh format.

    A point that is given twice counts once.

    Raises:
        UserError: a file cannot be read, the files are empty or differ in length, a word is one that Moses would
            misread, or an alignment line is malformed or points outside its sentences.
    """
    source_text, target_text = _TextBuilder(source), _TextBuilder(target, is_target=True)
    points, line_points = array("i"), array("q")
    lines = enumerate(lines_abreast(source, target, alignment), 1)
    for number, (source_line, target_line, alignment_line) in lines:
        source_text.add(source_line)
        target_text.add(target_line)
        positions = parse_points(alignment_line, alignment, number)
        points.extend(positions)
        line_points.append(len(positions) // 2)
    if not line_points:
        raise UserError(f"{source}: is empty; give a text with a sentence in each line")
    sides = source_text.build(), target_text.build()
    sentence_P = np.repeat(np.arange(len(line_points)), line_points)
    positions_P2 = np.array(points, np.int64).reshape(-1, 2)
    _check_inside(positions_P2, sentence_P, sides, (source, target), alignment)
    source_P, target_P = (
        side.offsets[sentence_P] + position_P for side, position_P in zip(sides, positions_P2.T, strict=True)
    )
    # A stable sort is fast where the points come in order, as they mostly do.
    keys_P = np.sort(source_P << 32 | target_P, kind="stable")
    keys_P = keys_P[np.diff(keys_P, prepend=-1) > 0]
    return AlignedCorpus(*sides, (keys_P >> 32).astype(np.int32), (keys_P & 0xFFFFFFFF).astype(np.int32))


def _check_inside(
    positions_P2: NDArray[np.int64],
    sentence_P: NDArray[np.int64],
    sides: tuple[Text, Text],
    paths: tuple[Path, Path],
    alignment: Path,
) -> None:
    """Refuse points outside their sentences."""
    lengths_P2 = np.stack([np.diff(side.offsets)[sentence_P] for side in sides], axis=1)
    outside = np.argwhere(positions_P2 >= lengths_P2)
    if len(outside):
        point, side = outside[0]
        raise UserError(
            f"{alignment}: line {sentence_P[point] + 1}: the point `{positions_P2[point, 0]}-{positions_P2[point, 1]}` "
            f"lies outside the sentence of {lengths_P2[point, side]} words in {paths[side]}; "
            "align the very texts that are given, source first"
        )
