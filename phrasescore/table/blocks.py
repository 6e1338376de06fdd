"""A phrase table in chunks of whole lines, as bytes: the units of work of processes and machines.

Chunk boundaries depend on the content only, not on the number of workers.
"""

from __future__ import annotations

import io
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import BinaryIO, Self

from phrasescore.configuration import LARGEST
from phrasescore.errors import OptionError
from phrasescore.files import LONGEST_LINE, can_be_read_only_once, open_input
from phrasescore.table.entry import LineFault, cut_source, parse_line
from phrasescore.table.reader import CHUNK_LINES, Chunk, LineChecker, next_lines, rest_of_line, share_of
from phrasescore.table.shape import UNKNOWN_SHAPE, Shape

_MORE_LINES = 4096
_MORE_BYTES = 1 << 20
"""Bytes that a chunk may have beyond its limit, so that lines of one source stay together."""


@dataclass(frozen=True)
class Block:
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

    def check(self, checker: LineChecker) -> Chunk:
        """Parse and validate the lines; see `LineChecker.check`."""
        if not self.lines:
            return Chunk([], {}, 0, self.share_read, continued=self.data)
        return checker.check(io.BytesIO(self.data), self.first_line, self.share_read)


@dataclass(frozen=True)
class Shard:
    """A range of the chunks of a table, for one of several jobs."""

    number: int
    """The number of the shard, from 1."""
    of: int

    @classmethod
    def parse(cls, text: str) -> Self:
        """Parse a shard such as `3/16`.

        Raises:
            ValueError: the text is not a shard.
        """
        number, _, of = text.partition("/")
        if not (number.isdecimal() and of.isdecimal() and 1 <= int(number) <= int(of) <= LARGEST):
            raise ValueError(f"{text} is not a part and a number of parts, as 3/16; parts count from 1")
        return cls(int(number), int(of))

    def take(self, blocks: Iterable[Block], count: int) -> Iterator[Block]:
        """Yield the chunks of the shard; `count` is the number of chunks of the table without continuations."""
        first, end = (count * number // self.of for number in (self.number - 1, self.number))
        index = -1
        for block in blocks:
            index += block.lines > 0
            if index >= end:
                break
            if index >= first:
                yield replace(block, share_read=(index + 1 - first) / (end - first))


def require_table_file(path: str | Path, option: str) -> None:
    """Check that a table can be read twice, as an option requires.

    Raises:
        OptionError: the table is a pipe or standard input.
    """
    if can_be_read_only_once(path):
        raise OptionError("{}: reads the table twice; give a file", option)


def count_blocks(path: str | Path, limit: int | None = None, block_lines: int = CHUNK_LINES) -> int:
    """Return the number of chunks of a table, without continuations of lines; see `read_blocks`."""
    return sum(block.lines > 0 for block in read_blocks(path, limit, block_lines))


def read_blocks(path: str | Path, limit: int | None = None, block_lines: int = CHUNK_LINES) -> Iterator[Block]:
    """Yield the chunks of a table, or of its first `limit` lines.

    A chunk has `block_lines` lines or about CHUNK_BYTES bytes, and the remaining lines of its last source, if they are
    few.

    Raises:
        UserError: the file cannot be read or is corrupt.
    """
    shape = UNKNOWN_SHAPE
    first_line, next_line = 1, b""
    with open_input(path) as source:
        while lines := next_lines(source.stream, _at_most(block_lines, limit, first_line), next_line):
            more = _at_most(_MORE_LINES, limit, first_line + len(lines))
            next_line = _finish_source(lines, source.stream, more)
            shape = _shape_of(lines, shape)
            done = first_line - 1 + len(lines)
            yield Block(b"".join(lines), first_line, len(lines), shape, share_of(done, limit, source.share_read()))
            first_line += len(lines)
            for piece in rest_of_line(source.stream, lines[-1]):
                yield Block(piece, first_line, 0, shape, share_of(done, limit, source.share_read()))


def _at_most(lines: int, limit: int | None, first_line: int) -> int:
    return lines if limit is None else min(lines, limit - first_line + 1)


def _finish_source(lines: list[bytes], stream: BinaryIO, most: int) -> bytes:
    """Append the following lines with the source of the last line; return the first line read with another source."""
    source = cut_source(lines[-1])
    size = 0
    while source is not None and most and size < _MORE_BYTES and (line := stream.readline(LONGEST_LINE)):
        if cut_source(line) != source:
            return line
        lines.append(line)
        most, size = most - 1, size + len(line)
    return b""


def _shape_of(lines: Iterable[bytes], shape: Shape) -> Shape:
    """Update the shape with the next lines."""
    for line in lines:
        if shape.is_complete:
            break
        with suppress(LineFault):
            shape = shape.joined(parse_line(line))
    return shape
