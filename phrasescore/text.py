"""Read texts, one sentence or phrase per line.

Only a line feed ends a line: a form feed or a U+2028 is part of it. Carriage returns at the end of a line and UTF-8
byte order marks at the start of the text are dropped. Lines are bytes: a line that is not UTF-8 is counted, and may be
read as unknown words. Input that cannot be a text is an error.
"""

from __future__ import annotations

import codecs
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence, Sized
from dataclasses import dataclass
from itertools import zip_longest
from pathlib import Path
from typing import AnyStr, BinaryIO, TypeVar

from phrasescore.errors import UserError
from phrasescore.files import bounded_lines, display_name, open_input

Log = Callable[[str], None]
"""Called with a message for the user."""

ProgressCallback = Callable[[float | None, str], None]
"""Progress callback: the fraction that is complete, None if unknown, and a short text."""

_CHUNK_BYTES = 1 << 24

_OTHER_MARKS = {
    codecs.BOM_UTF32_LE: "UTF-32",
    codecs.BOM_UTF32_BE: "UTF-32",
    codecs.BOM_UTF16_LE: "UTF-16",
    codecs.BOM_UTF16_BE: "UTF-16",
}
"""Longest first, because some are prefixes of others."""

_FEW_LINES, _SMALL_SHARE = 2, 0.05
"""No warning for this many unusual lines, if they are also below this fraction of all lines."""

LineReader = Callable[[BinaryIO, str], Iterator[bytes]]
"""Yields the lines of an open text with a name for messages: `lines_of` or `utf8_lines_of`."""

_Item = TypeVar("_Item", bound=Sized)
_Row = TypeVar("_Row", bound=Sequence[bytes] | Sequence[str])


def counted(number: int, name: str) -> str:
    """Return a number with a noun: `1 line`, `2,000 lines`."""
    return f"{number:,} {name}{'' if number == 1 else 's'}"


def no_log(sentence: str) -> None:
    """Discard a message."""


def no_progress(share: float | None, text: str) -> None:
    """Discard a progress report."""


def is_text(words: bytes) -> bool:
    """Return whether a word or a line is valid UTF-8. An invalid word is never in a vocabulary."""
    try:
        words.decode("utf-8")
    except UnicodeDecodeError:
        return False
    return True


def text_lines(path: str | Path, log: Log = no_log) -> Iterator[bytes]:
    """Yield the lines of a text, without their ends; after the last line, call `log` with warnings about unusual lines.

    Unusual lines are not UTF-8, or have sentence marks or `|||`, which are read as words.

    Raises:
        UserError: the file cannot be read or is not a text: it is UTF-16 or UTF-32, or has a NUL or an overlong line.
    """
    with open_input(path) as source:
        yield from lines_of(source.stream, display_name(path), log)


def lines_of(stream: BinaryIO, name: str, log: Log = no_log) -> Iterator[bytes]:
    """Yield the lines of an open text; `name` is its name in messages; see `text_lines`."""
    unusual = _UnusualLines()
    for number, line in _numbered_lines(stream, name):
        unusual.add(number, line)
        yield line
    unusual.report(name, log)


def utf8_lines(path: str | Path, log: Log = no_log) -> Iterator[bytes]:
    """Yield the lines of a text for evaluation, where a line that is not UTF-8 would distort the result.

    Raises:
        UserError: see `text_lines`; or a line is not UTF-8.
    """
    with open_input(path) as source:
        yield from utf8_lines_of(source.stream, display_name(path), log)


def utf8_lines_of(stream: BinaryIO, name: str, log: Log = no_log) -> Iterator[bytes]:
    """Yield the lines of an open text; `name` is its name in messages; see `utf8_lines`."""
    for number, line in enumerate(lines_of(stream, name, log), 1):
        if not is_text(line):
            raise UserError(
                f"{name}: line {number}: is not UTF-8, so what is measured by this text would be wrong; convert it, as "
                "by `iconv -f LATIN1 -t UTF-8`"
            )
        yield line


@dataclass
class _UnusualLines:
    """Counts lines that are probably not what the reader expects."""

    lines: int = 0
    undecodable: int = 0
    first_undecodable: int = 0
    marked: int = 0
    """Lines that begin or end with a sentence mark."""
    with_fields: int = 0
    """Lines with the separator of phrase tables and n-best lists."""

    def add(self, number: int, line: bytes) -> None:
        self.lines = number
        if not is_text(line):
            self.undecodable += 1
            self.first_undecodable = self.first_undecodable or number
        words = line.strip()
        self.marked += words.startswith(b"<s> ") or words.endswith(b" </s>")
        self.with_fields += b" ||| " in line

    def report(self, name: str, log: Log) -> None:
        """Report the counts, unless few lines have marks or separators, which may be sentences about these."""
        if self.undecodable:
            log(
                f"{name}: lines that are not UTF-8: {self.undecodable:,}, the first one {self.first_undecodable}; "
                "words in another encoding fit nothing else, so convert the text, by `iconv` for one"
            )
        for count, fault, remedy in (
            (self.marked, "a sentence mark, <s> or </s>, at an end, which is taken for a word", "remove the marks"),
            (self.with_fields, "`|||`, which is taken for a word", "give the text of one language in each file"),
        ):
            if count > _FEW_LINES and count >= _SMALL_SHARE * self.lines:
                log(f"{name}: {count:,} of {counted(self.lines, 'line')} have {fault}; {remedy}")


def lines_abreast(
    *paths: str | Path, read: Callable[[str | Path], Iterator[bytes]] = text_lines
) -> Iterator[tuple[bytes, ...]]:
    """Yield the lines of parallel texts together.

    Raises:
        UserError: see `read`; or the texts differ in length, which is detected at the end of the shortest.
    """
    texts = [read(path) for path in paths]
    for number, lines in enumerate(zip_longest(*texts)):
        if None in lines:
            counts = [
                number + (line is not None) + sum(1 for _ in text) for line, text in zip(lines, texts, strict=True)
            ]
            most, least = max(counts), min(counts)
            longer, shorter = (display_name(paths[counts.index(one)]) for one in (most, least))
            raise UserError(
                f"{longer}: has {counted(most, 'line')} but {shorter} has {least:,}; give files of the same sentences"
            )
        yield lines


def noting_one_sided(rows: Iterable[_Row], names: tuple[str, str], log: Log) -> Iterator[_Row]:
    """Yield the lines of parallel texts; report how many are empty in only one of the first two texts.

    Such lines are the best sign of a misalignment of the texts. `names` are those of the two texts.
    """
    count = first = 0
    for number, row in enumerate(rows, 1):
        if bool(row[0].strip()) != bool(row[1].strip()):
            count += 1
            first = first or number
        yield row
    if count:
        verb = "is" if count == 1 else "are"
        log(
            f"{names[0]} and {names[1]}: {counted(count, 'line')} {verb} empty on one side only, the first is line "
            f"{first}; check that the lines of both files belong together"
        )


def note_one_sided(one: Iterable[AnyStr], other: Iterable[AnyStr], names: tuple[object, object], log: Log) -> None:
    """Call `log` with the number of lines that are empty in only one of two parallel texts; see `noting_one_sided`."""
    deque(noting_one_sided(zip(one, other, strict=True), (str(names[0]), str(names[1])), log), maxlen=0)


def chunks(items: Iterable[_Item], most: int, size: Callable[[_Item], int] = len) -> Iterator[list[_Item]]:
    """Yield chunks of at most `most` items; chunks of large items have fewer, which bounds the memory.

    Args:
        items: the items to divide.
        most: maximum number of items of a chunk.
        size: returns the bytes of an item.
    """
    chunk: list[_Item] = []
    total = 0
    for item in items:
        chunk.append(item)
        total += size(item)
        if len(chunk) == most or total >= _CHUNK_BYTES:
            yield chunk
            chunk, total = [], 0
    if chunk:
        yield chunk


def _numbered_lines(stream: BinaryIO, name: str) -> Iterator[tuple[int, bytes]]:
    """Yield the lines with their numbers, from 1.

    Raises:
        UserError: a line is not text.
    """
    for number, line in bounded_lines(stream, name):
        if number == 1:
            for mark, encoding in _OTHER_MARKS.items():
                if line.startswith(mark):
                    raise UserError(
                        f"{name}: line 1: begins with the byte order mark of {encoding}; give UTF-8, as by "
                        f"`iconv -f {encoding} -t UTF-8`"
                    )
            # Some programs add a byte order mark to a text that already has one.
            while line.startswith(codecs.BOM_UTF8):
                line = line.removeprefix(codecs.BOM_UTF8)
            if not line:
                # The file has only a byte order mark.
                return
        if b"\0" in line:
            raise UserError(
                f"{name}: line {number}: has a NUL, as UTF-16 has, but no UTF-8 text; convert it, as by "
                "`iconv -f UTF-16LE -t UTF-8`"
            )
        yield number, line.rstrip(b"\r\n")
