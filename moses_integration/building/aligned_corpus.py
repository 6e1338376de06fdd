"""A parallel corpus and its word alignment: as three files, as arrays in memory, and as arrays mapped from disk.

Shape suffixes: N words of one text, concatenated; P alignment points.
"""

from __future__ import annotations

import re
from array import array
from dataclasses import dataclass
from mmap import ACCESS_READ, mmap
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from phrasescore.aligned_phrases import AlignedSentences, parse_points
from phrasescore.errors import UserError
from phrasescore.files import full_disk_told
from phrasescore.phrases import Ids, Offsets, offsets_of
from phrasescore.text import lines_abreast
from phrasescore.words import quote, split_words

NULL = b"NULL"
"""The empty word in Moses' lexical tables. As in Moses, a word of the text with this spelling is taken for it."""

# `|` separates fields and factors, `[x]` is a label of a hierarchical rule, and Moses splits at tabs. Without control
# characters no byte is smaller than the space, so sorting word sequences is sorting lines.
_MISREAD, _MISREAD_IN_TARGET = (
    re.compile(rb"[|%b\x00-\x1f]|\[(?<![^ ]\[)[^ ]*\](?![^ ])" % more) for more in (b"", b"<")
)
"""Moses' `extract` removes tags, which begin with `<`, from the target side only."""


@dataclass(frozen=True)
class Corpus:
    """The files of a prepared parallel corpus: words separated by spaces, a sentence a line."""

    source: Path
    target: Path
    alignment: Path
    """Pharaoh format, a line for each sentence pair."""

    @classmethod
    def in_folder(cls, folder: Path, name: str, languages: tuple[str, str]) -> Corpus:
        """Return the files NAME.en, NAME.fr, NAME.align of a folder."""
        source, target, alignment = (folder / f"{name}.{suffix}" for suffix in (*languages, "align"))
        return cls(source, target, alignment)


@dataclass(frozen=True)
class Text:
    """One side of a parallel corpus."""

    words: list[bytes]
    """The vocabulary with `NULL`, sorted by bytes, so that ids sort as their words."""
    ids_N: Ids
    offsets: Offsets
    """Sentence i has the words from `offsets[i]` to `offsets[i + 1]`."""
    spelling: bytes | mmap
    """The whole text, each word followed by a space."""
    bytes_N: Offsets
    """[N + 1] The offset of each word in `spelling`, and the end."""

    @property
    def null(self) -> int:
        """Id of `NULL`."""
        return self.words.index(NULL)

    @property
    def sentence_N(self) -> NDArray[np.int32]:
        """Sentence number of each word."""
        return np.repeat(np.arange(len(self.offsets) - 1, dtype=np.int32), np.diff(self.offsets))

    def save(self, folder: Path) -> None:
        """Write the text into an existing folder."""
        for name, content in (("words", b"\n".join(self.words)), ("spelling", self.spelling)):
            with full_disk_told(str(folder / name)):
                (folder / name).write_bytes(content)
        for name in ("ids_N", "offsets", "bytes_N"):
            save_array(folder, name, getattr(self, name))

    @classmethod
    def load(cls, folder: Path) -> Self:
        """Return the text of a folder, memory-mapped."""
        ids_N, offsets, bytes_N = (load_array(folder, name) for name in ("ids_N", "offsets", "bytes_N"))
        with (folder / "spelling").open("rb") as file:
            # An empty file cannot be mapped.
            spelling = mmap(file.fileno(), 0, access=ACCESS_READ) if len(ids_N) else b""
        return cls((folder / "words").read_bytes().split(b"\n"), ids_N, offsets, spelling, bytes_N)


@dataclass(frozen=True)
class AlignedCorpus:
    """Two texts of equally many sentences, and the alignment points between their words."""

    source: Text
    target: Text
    source_P: Ids
    """Source word of each point, by its position in the whole text. The points are distinct and sorted."""
    target_P: Ids

    @property
    def sentences(self) -> int:
        """Number of sentence pairs."""
        return len(self.source.offsets) - 1

    @property
    def aligned(self) -> AlignedSentences:
        """The positions without the words."""
        return AlignedSentences(self.source.offsets, self.target.offsets, self.source_P, self.target_P)

    def save(self, folder: Path) -> None:
        """Write the corpus into an existing folder."""
        for name in ("source", "target"):
            (folder / name).mkdir()
            getattr(self, name).save(folder / name)
        for name in ("source_P", "target_P"):
            save_array(folder, name, getattr(self, name))

    @classmethod
    def load(cls, folder: Path) -> Self:
        """Return the corpus of a folder, memory-mapped."""
        texts = Text.load(folder / "source"), Text.load(folder / "target")
        return cls(*texts, load_array(folder, "source_P"), load_array(folder, "target_P"))


def save_array(folder: Path, name: str, *parts: NDArray[Any]) -> None:
    """Write `NAME.npy`, the concatenation of arrays along their first axis.

    Unlike `np.save`, it reports a full disk with the file's name. A memory-mapped file would kill the process instead.
    """
    path, first = folder / f"{name}.npy", parts[0]
    header = {
        "descr": np.lib.format.dtype_to_descr(first.dtype),
        "fortran_order": False,
        "shape": (sum(map(len, parts)), *first.shape[1:]),
    }
    with full_disk_told(str(path)), path.open("wb") as file:
        np.lib.format.write_array_header_1_0(file, header)
        for part in parts:
            file.write(np.ascontiguousarray(part).data)


def load_array(folder: Path, name: str) -> NDArray[Any]:
    """Return a stored array, memory-mapped."""
    array: NDArray[Any] = np.load(folder / f"{name}.npy", mmap_mode="r")
    return array


def reject_misread(line: bytes, path: Path, number: int, *, is_target: bool) -> None:
    """Raise a UserError for a word of a sentence that Moses would misread."""
    misread = _MISREAD_IN_TARGET if is_target else _MISREAD
    if not misread.search(line):
        return
    word = next(word for word in line.split(b" ") if misread.search(word))
    raise UserError(
        f"{path}: line {number}: Moses would misread the word `{quote(word)}`; escape `|`, `[`, `]` and `<` as "
        "`&#124;`, `&#91;`, `&#93;` and `&lt;`, and remove tabs and control characters"
    )


class _Numbering(dict[bytes, int]):
    """Numbers words by first occurrence."""

    def __missing__(self, word: bytes) -> int:
        self[word] = number = len(self)
        return number


class _TextBuilder:
    def __init__(self, path: Path, *, is_target: bool = False) -> None:
        self.path, self._is_target = path, is_target
        self._numbering = _Numbering({NULL: 0})
        self._numbers = array("i")
        self._lengths = array("q")
        self._lines: list[bytes] = []

    def add(self, line: bytes) -> None:
        words = split_words(line)
        reject_misread(line, self.path, len(self._lengths) + 1, is_target=self._is_target)
        self._numbers.extend(map(self._numbering.__getitem__, words))
        self._lengths.append(len(words))
        if words:
            self._lines.append(b" ".join(words))

    def build(self) -> Text:
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
    """Read two tokenised texts, words separated by spaces, and their alignment in Pharaoh format.

    Duplicate points count once.

    Raises:
        UserError: the files differ in length, Moses would misread a word, or an alignment line is malformed or does
            not fit its sentences.
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
    # A stable sort is fast, because the points are mostly in order.
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
    lengths_P2 = np.stack([np.diff(side.offsets)[sentence_P] for side in sides], axis=1)
    outside = np.argwhere(positions_P2 >= lengths_P2)
    if len(outside):
        point, side = outside[0]
        raise UserError(
            f"{alignment}: line {sentence_P[point] + 1}: the point `{positions_P2[point, 0]}-{positions_P2[point, 1]}` "
            f"lies outside the sentence of {lengths_P2[point, side]} words in {paths[side]}; "
            "give the alignment of these texts, source first"
        )
