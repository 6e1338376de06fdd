"""Stream a phrase table in chunks of lines, in order, in bounded memory for lines of any length."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import BinaryIO, NamedTuple

from phrasescore.errors import InputError
from phrasescore.files import LONGEST_LINE, display_name, open_input
from phrasescore.table.entry import Entry, LineFault, cut_source, parse_line
from phrasescore.table.factors import SURFACE, Factors
from phrasescore.table.shape import UNKNOWN_SHAPE, Shape
from phrasescore.words import quote

CHUNK_LINES = 32_768
CHUNK_BYTES = 1 << 23
"""Size limit of a chunk, which ends with the line that reaches it; with usual lines the line limit applies first."""


def next_lines(stream: BinaryIO, most: int, read_before: bytes = b"") -> list[bytes]:
    """Return the next lines of a file with their ends: at most `most` lines and about CHUNK_BYTES bytes.

    A line that exceeds LONGEST_LINE is truncated and is the last. `read_before` is a first line that was read already.
    """
    lines: list[bytes] = []
    size = 0
    while len(lines) < most and size < CHUNK_BYTES and (line := read_before or stream.readline(LONGEST_LINE)):
        read_before = b""
        lines.append(line)
        size += len(line)
        if is_cut(line):
            break
    return lines


def rest_of_line(stream: BinaryIO, piece: bytes) -> Iterator[bytes]:
    """Yield the remainder of a truncated line in pieces; nothing if `piece` is the whole line."""
    while is_cut(piece):
        piece = stream.readline(LONGEST_LINE)
        yield piece


def is_cut(line: bytes) -> bool:
    """Return whether a line was truncated at LONGEST_LINE bytes."""
    return len(line) == LONGEST_LINE and not line.endswith(b"\n")


class FaultyLine(NamedTuple):
    """An invalid line and its fault."""

    line: bytes
    """Truncated if the line is too long."""
    number: int
    fault: LineFault

    @property
    def source(self) -> bytes | None:
        """The source phrase, None if the line is too long or has no second field."""
        return cut_source(self.line)


@dataclass(frozen=True)
class Chunk:
    """Consecutive lines of a table."""

    entries: list[Entry]
    faulty: dict[int, FaultyLine]
    """Invalid lines by their index in the chunk; empty unless the reader keeps invalid lines."""
    lines_read: int
    share_read: float | None
    """The fraction of the file, or of its lines up to the limit, that has been read; None for a pipe without a limit.
    """
    continued: bytes = b""
    """The continuation of a truncated line, the last line of the previous chunks; the chunk then has no lines."""

    def keep_sources(self, sources: frozenset[bytes]) -> Chunk:
        """Return only the lines of these sources; an invalid line without a second field has no source."""
        entries: list[Entry] = []
        faulty: dict[int, FaultyLine] = {}
        good = iter(self.entries)
        for index in range(len(self.entries) + len(self.faulty)):
            if index not in self.faulty:
                entry = next(good)
                if entry.source in sources:
                    entries.append(entry)
            elif self.faulty[index].source in sources:
                faulty[len(entries) + len(faulty)] = self.faulty[index]
        return replace(self, entries=entries, faulty=faulty, continued=b"")


class LineChecker:
    """Validates the lines of a phrase table.

    An invalid line is an error, or with `keep_faulty` is returned in `Chunk.faulty`.
    """

    def __init__(
        self,
        path: str | Path,
        *,
        keep_faulty: bool = False,
        shape: Shape = UNKNOWN_SHAPE,
        factors: Factors = SURFACE,
        last_score: bytes | None = None,
    ) -> None:
        """Create a checker.

        Args:
            path: the name of the table in messages.
            keep_faulty: whether to return invalid lines.
            shape: the shape of the table, as far as earlier lines determine it.
            factors: the factors that words must have, if they have several.
            last_score: the required last score of each line, None for any.
        """
        self.path = path
        self.keep_faulty = keep_faulty
        self.shape = shape
        """The shape of the table, complete after the first valid lines."""
        self.factors = factors
        self._last_score = last_score

    def check(self, lines: Iterable[bytes], first_line: int, share_read: float | None) -> Chunk:
        """Parse and validate consecutive lines; `first_line` is the number of the first.

        Raises:
            InputError: a line is invalid, and `keep_faulty` is not set.
        """
        entries: list[Entry] = []
        faulty: dict[int, FaultyLine] = {}
        for index, line in enumerate(lines):
            try:
                entry = parse_line(line)
                self.shape = self.shape.joined(entry, self.factors)
                if self._last_score is not None:
                    self._check_last_score(entry)
                entries.append(entry)
            except LineFault as fault:
                number = first_line + index
                if not self.keep_faulty:
                    raise self.error(number, fault) from None
                # The traceback references this frame, and so all lines, in a cycle that would delay freeing them.
                faulty[index] = FaultyLine(line, number, fault.with_traceback(None))
        return Chunk(entries, faulty, len(entries) + len(faulty), share_read)

    def error(self, number: int, fault: LineFault) -> InputError:
        """Return the error for the fault of a line."""
        # A fault of the whole line has no field name.
        what = str(fault).removeprefix("line") if fault.field == "line" else f", {fault}"
        return InputError(f"{display_name(self.path)}, line {number}{what}")

    def _check_last_score(self, entry: Entry) -> None:
        score = entry.scores.rpartition(b" ")[2]
        if score != self._last_score:
            raise LineFault(
                "field 3 (scores)",
                f"ends in {quote(score)} where {quote(self._last_score or b'')} is to be replaced",
                "give --replace-last what ends every line: 2.718 if the table was made with Moses' --PhraseCount",
            )


def share_of(lines: int, limit: int | None, share_read: float | None) -> float | None:
    """Return the fraction processed of a file, or of its first `limit` lines, after `lines` lines; None if unknown."""
    return share_read if limit is None else max(share_read or 0.0, min(1.0, lines / limit))


class TableReader(LineChecker):
    """Reads and validates a phrase table in chunks. The first valid lines determine its shape."""

    def __init__(
        self,
        path: str | Path,
        *,
        keep_faulty: bool = False,
        factors: Factors = SURFACE,
        limit: int | None = None,
        chunk_lines: int = CHUNK_LINES,
    ) -> None:
        super().__init__(path, keep_faulty=keep_faulty, factors=factors)
        self.limit = limit
        self.chunk_lines = chunk_lines

    def __iter__(self) -> Iterator[Chunk]:
        """Yield the chunks.

        Raises:
            InputError: the file is corrupt, or (without `keep_faulty`) a line is invalid.
            UserError: the file cannot be read.
        """
        with open_input(self.path) as source:
            first_line = 1
            while lines := self._next_lines(source.stream, first_line):
                done = first_line - 1 + len(lines)
                yield self.check(lines, first_line, share_of(done, self.limit, source.share_read()))
                first_line += len(lines)
                for piece in rest_of_line(source.stream, lines[-1]):
                    yield Chunk([], {}, 0, share_of(done, self.limit, source.share_read()), continued=piece)

    def _next_lines(self, stream: BinaryIO, first_line: int) -> list[bytes]:
        wanted = self.chunk_lines
        if self.limit is not None:
            wanted = min(wanted, self.limit - first_line + 1)
        return next_lines(stream, wanted)
