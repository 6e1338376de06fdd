"""Stream a phrase table in chunks of lines, in order, in bounded memory, however long its lines."""

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
"""A chunk ends with the line in which it reaches so many: of ordinary lines the other limit is met first."""


def next_lines(stream: BinaryIO, most: int, read_before: bytes = b"") -> list[bytes]:
    """Return the next lines of a file with their ends, `most` or fewer, some CHUNK_BYTES in all.

    Of a line too long for memory they have only the beginning, as the last. The first may have been read before.
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
    """Yield what follows in a file of a line of which a piece was read, in pieces, nothing if that was all."""
    while is_cut(piece):
        piece = stream.readline(LONGEST_LINE)
        yield piece


def is_cut(line: bytes) -> bool:
    """Whether of a line only some LONGEST_LINE bytes were read."""
    return len(line) == LONGEST_LINE and not line.endswith(b"\n")


class FaultyLine(NamedTuple):
    """A line that cannot be used, and why."""

    line: bytes
    """Of a line too long for memory, its beginning."""
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
    """Faulty lines by their place among those of the chunk; empty unless the reader was told to keep them."""
    lines_read: int
    share_read: float | None
    """The share of the file, or of its lines up to the limit, that was read so far; None for a pipe without a limit."""
    continued: bytes = b""
    """What follows of a line too long for memory, the last one of the chunks before; then there are no lines."""

    def keep_sources(self, sources: frozenset[bytes]) -> Chunk:
        """Return the chunk without the lines of other sources; a faulty line without a second field has no source."""
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
    """Checks the lines of a phrase table.

    A faulty line is an error, or with `keep_faulty` passed on in `Chunk.faulty`.
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
        """Check nothing yet.

        Args:
            path: what to call the table in messages.
            keep_faulty: whether faulty lines are passed on.
            shape: what all lines share, as far as earlier lines show it.
            factors: which factors the words must have, if they have several.
            last_score: what the last score is in each line, if that matters.
        """
        self.path = path
        self.keep_faulty = keep_faulty
        self.shape = shape
        """What all lines share, known after the first good ones."""
        self.factors = factors
        self._last_score = last_score

    def check(self, lines: Iterable[bytes], first_line: int, share_read: float | None) -> Chunk:
        """Return consecutive lines, of which the first has the number `first_line`, with what is wrong with them.

        Raises:
            InputError: (without `keep_faulty`) one is faulty.
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
                # Its traceback would hold this frame, and so all lines, in a circle that is not freed at once.
                faulty[index] = FaultyLine(line, number, fault.with_traceback(None))
        return Chunk(entries, faulty, len(entries) + len(faulty), share_read)

    def error(self, number: int, fault: LineFault) -> InputError:
        """Return the sentence about the fault of the line with a number."""
        # Of the whole line there is no field to name.
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
    """Return the share that is done of a file, or of its first `limit` lines, after so many lines; None if unknown."""
    return share_read if limit is None else max(share_read or 0.0, min(1.0, lines / limit))


class TableReader(LineChecker):
    """Reads chunks of a phrase table and checks each line. The first good lines fix its shape."""

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
            InputError: the file is corrupt, or (without `keep_faulty`) a line is faulty.
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
