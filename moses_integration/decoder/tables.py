"""Phrase and reordering tables, filtered to the source phrases of the input.

A table is read once, as a stream. A line is kept as bytes if its source phrase occurs in the sentences to translate,
and parsed when the phrase is looked up. A server does not know its sentences in advance. It keeps all lines in files
that its processes map into memory: they share one copy and open it at once. So do the decoders of a text in context.

Shapes: K runs of adjacent lines with equal keys.
"""

from __future__ import annotations

import hashlib
import itertools
import math
import mmap
from array import array
from collections.abc import Callable, Iterable, Iterator, Set
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path

import numpy as np

from moses_integration.decoder.phrases import TargetPhrase, Words, words_of
from phrasescore.errors import UserError
from phrasescore.files import LONGEST_LINE, compressed_form, open_input, open_output
from phrasescore.table.entry import (
    LOWEST_LOG,
    SEPARATOR,
    LineFault,
    describe_factors,
    fault_of_the_whole,
    parse_alignment,
    parse_line_and_scores,
    parse_scores,
    without_end,
)
from phrasescore.text import counted
from phrasescore.words import hash_word, join_words, to_float32

_LOWEST = math.exp(LOWEST_LOG)
Line = tuple[int, bytes]
"""The number of a line, and its text without the line end."""
KeyedLines = Iterable[tuple[bytes, Line]]


@dataclass(frozen=True)
class MappedPhrases:
    """Source phrases whose table lines are in files of a folder. The first process writes them; all map them."""

    folder: Path
    phrases: Set[bytes] | None = None
    """None for all phrases, and if the files exist."""

    def __contains__(self, phrase: object) -> bool:
        return self.phrases is None or phrase in self.phrases


Wanted = Set[bytes] | MappedPhrases
"""The source phrases whose lines are kept."""


class PhraseTable:
    """Translations of source phrases."""

    def __init__(self, path: Path, width: int, wanted: Wanted, target_factors: int = 1) -> None:
        self.path, self.width, self._target_factors = path, width, target_factors
        self._lines = _keep_lines(wanted, f"{path.resolve()}", lambda: self._read(wanted))

    def _read(self, wanted: Wanted) -> KeyedLines:
        for row, source, line in _wanted_lines(self.path, wanted, is_for_reordering=False):
            yield source, (row, without_end(line))

    def lookup(self, source: Words) -> list[TargetPhrase]:
        return [self._parse(row, line) for row, line in self._lines.get(b" ".join(source)) or ()]

    def lines(self, source: Words) -> list[bytes]:
        return [line for _, line in self._lines.get(b" ".join(source)) or ()]

    def _parse(self, row: int, line: bytes) -> TargetPhrase:
        try:
            entry, scores = parse_line_and_scores(line)
            if entry.factors() not in ((1, self._target_factors), (1, 0)):
                found = describe_factors(*entry.factors())
                raise LineFault("line", f"has {found}, unlike moses.ini", "fix output-factor= in the ini")
            fields = entry.other_fields()
            # Alignment, counts, sparse features.
            if len(fields) > 2 and fields[2]:
                raise LineFault(
                    "field 6 (sparse features)", "is not empty", "empty it, because only Moses supports such features"
                )
            logs = _floored_logs(scores, self.width, f"moses.ini says num-features={self.width}")
            return TargetPhrase(words_of(entry.target), logs, parse_alignment(fields[0]) if fields else ())
        except LineFault as fault:
            raise _error(self.path, row, fault) from fault


class ReorderingTable:
    """Log-probabilities of orientations by phrase pair, `f ||| e ||| p ...`, or by source phrase, `f ||| p ...`.

    Moses only trims spaces from the phrases, so it never finds a phrase with two spaces or a tab between words
    (moses/FF/LexicalReordering/LexicalReorderingTable.cpp).
    """

    def __init__(self, path: Path, width: int, has_target: bool, wanted: Wanted) -> None:
        """Read the lines whose source phrase is in `wanted`, from `path.gz` if there is no `path`, like Moses."""
        zipped = Path(f"{path}.gz")
        self.path = path if path.exists() or not zipped.exists() else zipped
        self.width, self.has_target = width, has_target
        self._lines = _keep_lines(wanted, f"{self.path.resolve()} {has_target}", lambda: self._read(wanted))

    def _read(self, wanted: Wanted) -> KeyedLines:
        for row, source, line in _wanted_lines(self.path, wanted, is_for_reordering=True):
            _, *fields = without_end(line).split(SEPARATOR)
            if len(fields) < 1 + self.has_target:
                raise _error(self.path, row, fault_of_the_whole(line))
            target = _trim(fields[0]) if self.has_target else b""
            yield source + SEPARATOR + target, (row, fields[self.has_target].strip(b" "))

    def lookup(self, source: Words, target: Words) -> tuple[float, ...] | None:
        """Return max(ln p, -100) of each column, None for a pair outside the table."""
        found = self._find(source, target)
        if found is None:
            return None
        row, scores = found
        try:
            return _floored_logs(parse_scores(scores, "scores"), self.width, f"the model's type needs {self.width}")
        except LineFault as fault:
            raise _error(self.path, row, fault) from fault

    def scores(self, source: Words, target: Words) -> bytes | None:
        found = self._find(source, target)
        return found and found[1]

    def _find(self, source: Words, target: Words) -> Line | None:
        found = self._lines.get(b" ".join(source) + SEPARATOR + (b" ".join(target) if self.has_target else b""))
        return found[-1] if found else None


def _trim(phrase: bytes) -> bytes:
    return phrase.strip(b" ")


def filter_table(path: Path, wanted: Set[bytes], filtered: Path, *, is_for_reordering: bool) -> None:
    """Write the lines of a table whose source phrase is in `wanted`, unchanged."""
    with open_output(filtered) as stream:
        lines = _wanted_lines(path, wanted, is_for_reordering=is_for_reordering)
        stream.writelines(line.rstrip(b"\n") + b"\n" for _, _, line in lines)


def _wanted_lines(path: Path, wanted: Wanted, *, is_for_reordering: bool) -> Iterator[tuple[int, bytes, bytes]]:
    """Yield line number, normalised source phrase, and line of the wanted source phrases."""
    phrase_of = _trim if is_for_reordering else join_words
    if not path.exists():
        compressed = compressed_form(path)
        remedy = f"name {compressed}, which exists" if compressed else "fix the line"
        raise UserError(f"{path}: does not exist, but the ini names it; {remedy}")
    last = phrase = b""
    with open_input(path) as source:
        for row, line in enumerate(iter(lambda: source.stream.readline(LONGEST_LINE), b""), 1):
            field, separator, _ = line.partition(SEPARATOR)
            if not separator or len(line) == LONGEST_LINE:
                raise _error(path, row, fault_of_the_whole(line))
            if field != last:
                last, phrase = field, phrase_of(field)
            if is_for_reordering and not line.endswith(b"\n"):
                reason = "has no line end, so Moses ignores it"
                raise _error(path, row, LineFault("line", reason, "end the file with a line end"))
            if phrase in wanted:
                yield row, phrase, line


def _floored_logs(probabilities: list[float], width: int, promise: str) -> tuple[float, ...]:
    """Return max(ln p, -100) of each score in 32 bits, like Moses; `promise` explains the width."""
    if len(probabilities) != width:
        reason = f"has {counted(len(probabilities), 'score')} where {promise}"
        raise LineFault("line", reason, "run `phrasescore check` on the table")
    return tuple(to_float32([math.log(p) if p > _LOWEST else LOWEST_LOG for p in probabilities]))


def _error(path: Path, row: int, fault: LineFault) -> UserError:
    return UserError(f"{path}: line {row}: {str(fault).removeprefix('line: ')}")


def _keep_lines(wanted: Wanted, table: str, read: Callable[[], KeyedLines]) -> dict[bytes, list[Line]] | _MappedLines:
    """Return the lines that `read` yields; `table` identifies them in the folder of `MappedPhrases`."""
    if isinstance(wanted, MappedPhrases):
        path = wanted.folder / hashlib.sha256(table.encode("utf-8", "surrogateescape")).hexdigest()[:16]
        if not path.exists():
            _write(path, read())
        return _MappedLines(path)
    kept: dict[bytes, list[Line]] = {}
    for key, line in read():
        kept.setdefault(key, []).append(line)
    return kept


class _MappedLines:
    """Lines in a file that is mapped into memory.

    The file has each run as its key and the lines with their numbers. A second file has the hash of each run's key,
    ascending, the offset in the first file, and the number of lines.
    """

    def __init__(self, path: Path) -> None:
        # As plain arrays, because those of `np.memmap` are slow to index.
        self._hash_K, self._offset_K, self._lines_K = np.asarray(np.load(_runs_of(path), mmap_mode="r"))
        with path.open("rb") as stream:
            self._text = mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_READ)

    def get(self, key: bytes, /) -> list[Line] | None:
        wanted, found = np.uint64(hash_word(key)), list[Line]()
        for run in itertools.count(int(self._hash_K.searchsorted(wanted))):
            if run == len(self._hash_K) or self._hash_K[run] != wanted:
                break
            self._text.seek(int(self._offset_K[run]))
            if self._text.readline()[:-1] == key:
                for _ in range(int(self._lines_K[run])):
                    row, _, line = self._text.readline()[:-1].partition(b" ")
                    found.append((int(row), line))
        return found or None


def _write(path: Path, lines: KeyedLines) -> None:
    """Write the files of `_MappedLines`; the text comes last, because it marks both as complete."""
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
