"""Stream a phrase table in chunks of lines, in order, in bounded memory for lines of any length.

`read_chunks` yields the bytes, which are the units of work of processes and machines. `TableReader` and `LineChecker`
parse and validate them. The boundaries depend on the content only, not on the number of workers.
"""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import BinaryIO, NamedTuple

from phrasescore.errors import InputError
from phrasescore.files import LONGEST_LINE, display_name, open_input
from phrasescore.table.entry import ESCAPE, SURFACE, Entry, Factors, LineFault, cut_source, parse_line
from phrasescore.text import counted

CHUNK_LINES = 32_768
CHUNK_BYTES = 1 << 23
"""Size limit of a chunk, which ends with the line that reaches it; with usual lines the line limit applies first."""
_MORE_LINES, _MORE_BYTES = 4096, 1 << 20
"""What a chunk may have beyond its limits, so that lines of one source stay together."""


class Shape(NamedTuple):
    """The common shape of all lines of a table, as far as the lines read so far determine it."""

    columns: int | None = None
    """Number of scores of a line; None before the first valid line."""
    factors: tuple[int, int] = (0, 0)
    """Number of factors of a source and a target word; 0 before the first valid line with words on that side."""

    def joined(self, entry: Entry, wanted: Factors = SURFACE) -> Shape:
        """Update the shape with the next line; another shape, or words that lack a selected factor, are a LineFault."""
        columns, factors = entry.score_count(), entry.factors()
        if columns == self.columns and factors == self.factors and max(wanted.positions) == 0:
            return self
        if self.columns not in (None, columns):
            raise LineFault(
                "field 3 (scores)",
                f"has {counted(columns, 'score')} where the lines before have {self.columns}",
                "the table was cut or mixed with another; rebuild it",
            )
        for field, number, before in zip(("field 1 (source)", "field 2 (target)"), factors, self.factors, strict=True):
            if number and before and number != before:
                raise LineFault(
                    field, f"has words of {counted(number, 'factor')} where the lines before have {before}", ESCAPE
                )
            wanted.require_in(number, field)
        source, target = (number or before for number, before in zip(factors, self.factors, strict=True))
        return Shape(columns, (source, target))


_UNKNOWN = Shape()


# Bytes


@dataclass(frozen=True)
class Chunk:
    """Consecutive lines of a table, or the continuation of a line that exceeds the memory limit."""

    data: bytes
    first_line: int
    lines: int
    """The number of lines; 0 if the data continues the last line of the previous chunk."""
    shape: Shape
    """The shape of the table, as far as lines up to the end of this chunk determine it."""
    share_read: float | None
    """The fraction that has been read of the selected lines: of the table, of the lines up to a limit, of a shard.

    None for a pipe without a limit.
    """


def count_chunks(path: str | Path, limit: int | None = None, chunk_lines: int = CHUNK_LINES) -> int:
    """Return the number of chunks of a table, without continuations of lines; see `read_chunks`."""
    return sum(chunk.lines > 0 for chunk in read_chunks(path, limit, chunk_lines))


def read_chunks(path: str | Path, limit: int | None = None, chunk_lines: int = CHUNK_LINES) -> Iterator[Chunk]:
    """Yield the chunks of a table, or of its first `limit` lines."""
    shape, first_line = _UNKNOWN, 1
    with open_input(path) as source:
        for lines, is_continuation in _split(source.stream, limit, chunk_lines):
            number, share = 0 if is_continuation else len(lines), source.share_read()
            if limit is not None:
                share = max(share or 0.0, min(1.0, (first_line - 1 + number) / limit))
            for line in lines[:number]:
                if shape.columns is not None and 0 not in shape.factors:
                    break
                with suppress(LineFault):
                    shape = shape.joined(parse_line(line))
            yield Chunk(b"".join(lines), first_line, number, shape, share)
            first_line += number


def _split(stream: BinaryIO, limit: int | None, chunk_lines: int) -> Iterator[tuple[list[bytes], bool]]:
    """Yield the lines of each chunk, and whether they continue the last line of the previous chunk."""
    lines: list[bytes] = []
    count = size = 0
    is_cut = False
    for line in iter(partial(stream.readline, LONGEST_LINE), b""):
        if is_cut:
            yield [line], True
        else:
            is_full = len(lines) >= chunk_lines or size >= CHUNK_BYTES
            if is_full and not (
                len(lines) < chunk_lines + _MORE_LINES
                and size < CHUNK_BYTES + _MORE_BYTES
                and cut_source(lines[-1]) == cut_source(line) is not None
            ):
                yield lines, False
                lines, size = [], 0
            lines.append(line)
            count, size = count + 1, size + len(line)
        is_cut = len(line) == LONGEST_LINE and not line.endswith(b"\n")
        if lines and (is_cut or count == limit):
            yield lines, False
            lines, size = [], 0
        if count == limit and not is_cut:
            return
    if lines:
        yield lines, False


# Entries


class FaultyLine(NamedTuple):
    """An invalid line and its fault."""

    line: bytes
    number: int
    fault: LineFault

    @property
    def source(self) -> bytes | None:
        """The source phrase, None if the line is too long or has no second field."""
        return cut_source(self.line)


@dataclass(frozen=True)
class CheckedChunk:
    """The parsed lines of a chunk."""

    lines: list[Entry | FaultyLine]
    """Invalid lines are included only if the reader keeps them."""
    share_read: float | None
    continued: bytes = b""
    """The continuation of a truncated line, the last line of the previous chunks; the chunk then has no lines."""

    @property
    def entries(self) -> list[Entry]:
        """The valid lines."""
        return [line for line in self.lines if isinstance(line, Entry)]

    @property
    def faulty(self) -> list[FaultyLine]:
        """The invalid lines."""
        return [line for line in self.lines if isinstance(line, FaultyLine)]

    def keep_sources(self, sources: frozenset[bytes]) -> CheckedChunk:
        return CheckedChunk([line for line in self.lines if line.source in sources], self.share_read)


class LineChecker:
    """Parses and validates the lines of a table; an invalid line is an error, or with `keep_faulty` a `FaultyLine`."""

    def __init__(
        self,
        path: str | Path,
        *,
        keep_faulty: bool = False,
        shape: Shape = _UNKNOWN,
        factors: Factors = SURFACE,
        check_entry: Callable[[Entry], object] = lambda entry: None,
    ) -> None:
        """Create a checker; `shape` is that of earlier lines, and `check_entry` may raise a LineFault."""
        self.path = path
        self.keep_faulty = keep_faulty
        self.shape = shape
        """The shape of the table, complete after the first valid lines."""
        self.factors = factors
        self._check_entry = check_entry

    def check(self, chunk: Chunk) -> CheckedChunk:
        """Parse and validate the lines of a chunk."""
        if not chunk.lines:
            return CheckedChunk([], chunk.share_read, continued=chunk.data)
        lines: list[Entry | FaultyLine] = []
        for number, line in enumerate(io.BytesIO(chunk.data), chunk.first_line):
            try:
                entry = parse_line(line)
                self.shape = self.shape.joined(entry, self.factors)
                self._check_entry(entry)
                lines.append(entry)
            except LineFault as fault:
                if not self.keep_faulty:
                    raise self.error(number, fault) from None
                # The traceback references this frame, and so all lines, in a cycle that would delay freeing them.
                lines.append(FaultyLine(line, number, fault.with_traceback(None)))
        return CheckedChunk(lines, chunk.share_read)

    def first_fault(self, chunk: CheckedChunk) -> str | None:
        """Return the message about the first faulty line that was kept; a fault of the whole table is an error."""
        for faulty in chunk.faulty:
            if faulty.fault.is_about_the_table:
                raise self.error(faulty.number, faulty.fault)
        return next((str(self.error(faulty.number, faulty.fault)) for faulty in chunk.faulty), None)

    def error(self, number: int, fault: LineFault) -> InputError:
        """Return the error for the fault of a line."""
        # A fault of the whole line has no field name.
        what = str(fault).removeprefix("line") if fault.field == "line" else f", {fault}"
        return InputError(f"{display_name(self.path)}, line {number}{what}")


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
        self.limit, self.chunk_lines = limit, chunk_lines

    def __iter__(self) -> Iterator[CheckedChunk]:
        return map(self.check, read_chunks(self.path, self.limit, self.chunk_lines))
