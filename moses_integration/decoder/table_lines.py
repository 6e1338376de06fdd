"""The lines of a table by key: those for a text in memory, or all lines in a file.

A server does not know its sentences in advance. It keeps all lines in files that its processes map into memory: they
share one copy and open it at once.

Shapes: K runs of adjacent lines with equal keys.
"""

from __future__ import annotations

import hashlib
import mmap
from array import array
from collections.abc import Callable, Iterable, Set
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import Protocol

import numpy as np

from phrasescore.files import open_output
from phrasescore.words import hash_word

Line = tuple[int, bytes]
"""The number of a line, and its text without the line end."""
KeyedLines = Iterable[tuple[bytes, Line]]


class TableLines(Protocol):
    """The lines of a table."""

    def get(self, key: bytes, /) -> list[Line] | None:
        """Return the lines of a key, in the order of the table."""
        ...


@dataclass(frozen=True)
class AllPhrases:
    """Stands for all source phrases; the lines of tables are kept in files of a folder."""

    folder: Path

    def __contains__(self, phrase: object) -> bool:
        return True


Wanted = Set[bytes] | AllPhrases
"""The source phrases whose lines are kept."""


def keep_lines(wanted: Wanted, table: str, read: Callable[[], KeyedLines]) -> TableLines:
    """Return the lines that `read` yields; `table` identifies them in the folder of `AllPhrases`."""
    if isinstance(wanted, AllPhrases):
        path = wanted.folder / hashlib.sha256(table.encode("utf-8", "surrogateescape")).hexdigest()[:16]
        if not path.exists():
            _write(path, read())
        return MappedLines(path)
    kept: dict[bytes, list[Line]] = {}
    for key, line in read():
        kept.setdefault(key, []).append(line)
    return kept


class MappedLines:
    """Lines in a file that is mapped into memory.

    The file has each run as its key and the lines with their numbers. A second file has the hash of each run's key,
    ascending, the offset in the first file, and the number of lines.
    """

    def __init__(self, path: Path) -> None:
        """Open the files that `_write` wrote."""
        self._hash_K, self._offset_K, self._lines_K = np.load(_runs_of(path), mmap_mode="r")
        with path.open("rb") as stream:
            self._text = mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_READ)

    def get(self, key: bytes, /) -> list[Line] | None:
        """Return the lines of a key."""
        wanted, found = np.uint64(hash_word(key)), list[Line]()
        for run in range(*(int(np.searchsorted(self._hash_K, wanted, side)) for side in ("left", "right"))):
            self._text.seek(int(self._offset_K[run]))
            if self._text.readline()[:-1] == key:
                for _ in range(int(self._lines_K[run])):
                    row, _, line = self._text.readline()[:-1].partition(b" ")
                    found.append((int(row), line))
        return found or None


def _write(path: Path, lines: KeyedLines) -> None:
    """Write the files of `MappedLines`; the text comes last, because it marks both as complete."""
    hashes, offsets, counts, offset = array("Q"), array("Q"), array("Q"), 1
    with open_output(path) as stream:
        # An empty file cannot be mapped.
        stream.write(b"\n")
        for key, run in groupby(lines, lambda line: line[0]):
            texts = [b"%d %b\n" % line for _, line in run]
            stream.writelines([key, b"\n", *texts])
            hashes.append(hash_word(key))
            offsets.append(offset)
            counts.append(len(texts))
            offset += len(key) + 1 + sum(map(len, texts))
        runs_3K = np.array([hashes, offsets, counts], np.uint64)
        order = np.argsort(runs_3K[0], kind="stable")
        with open_output(_runs_of(path)) as runs:
            np.save(runs, runs_3K[:, order])


def _runs_of(path: Path) -> Path:
    return path.with_name(path.name + ".runs")
