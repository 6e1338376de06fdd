"""Read texts, one sentence or phrase per line.

Only a line feed ends a line: a form feed or a U+2028 is part of it. Carriage returns at the end of a line and UTF-8
byte order marks at the start of the text are dropped. Lines are bytes: a line that is not UTF-8 is counted, and may be
read as unknown words. Input that cannot be a text is an error.
"""

from __future__ import annotations

import codecs
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import zip_longest
from pathlib import Path
from typing import BinaryIO, TypeVar

from phrasescore.errors import UserError
from phrasescore.files import bounded_lines, display_name, open_input

Log = Callable[[str], None]
"""Called with a message for the user."""

ProgressCallback = Callable[[float | None, str], None]
"""Called with the fraction that is complete, None if unknown, and a short text."""

_CHUNK_BYTES = 1 << 24

_FEW_LINES, _SMALL_SHARE = 2, 0.05
"""No warning for this many unusual lines, if they are also below this fraction of all lines."""

_Item = TypeVar("_Item")
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

    Unusual lines are not UTF-8, or have sentence marks or `|||`, which are read as words. A NUL, as UTF-16 has, or an
    overlong line is an error.
    """
    with open_input(path) as source:
        yield from lines_of(source.stream, display_name(path), log)


def utf8_lines(path: str | Path, log: Log = no_log) -> Iterator[bytes]:
    """Yield the lines of a text for evaluation, where a line that is not UTF-8 would distort the result: an error."""
    with open_input(path) as source:
        yield from lines_of(source.stream, display_name(path), log, needs_utf8=True)


def lines_of(stream: BinaryIO, name: str, log: Log = no_log, *, needs_utf8: bool = False) -> Iterator[bytes]:
    """Yield the lines of an open text; `name` is its name in messages; see `text_lines` and `utf8_lines`."""
    number = undecodable = first_undecodable = marked = with_fields = 0
    for number, line in bounded_lines(stream, name):
        if number == 1:
            # Some programs add a byte order mark to a text that already has one.
            while line.startswith(codecs.BOM_UTF8):
                line = line.removeprefix(codecs.BOM_UTF8)
            if not line:
                # The file has only a byte order mark.
                return
        line = line.rstrip(b"\r\n")
        if b"\0" in line:
            raise UserError(
                f"{name}: line {number}: has a NUL, as UTF-16 has, but no UTF-8 text; convert it, for "
                "example with `iconv -f UTF-16 -t UTF-8`"
            )
        if not is_text(line):
            if needs_utf8:
                raise UserError(
                    f"{name}: line {number}: is not UTF-8, so results from this text would be wrong; convert it, "
                    "for example with `iconv -f LATIN1 -t UTF-8`"
                )
            undecodable += 1
            first_undecodable = first_undecodable or number
        words = line.strip()
        marked += words.startswith(b"<s> ") or words.endswith(b" </s>")
        with_fields += b" ||| " in line
        yield line
    if undecodable:
        log(
            f"{name}: lines that are not UTF-8: {undecodable:,}, the first is line {first_undecodable}; their words "
            "will match no word of the model; convert the text with `iconv`"
        )
    for count, fault, remedy in (
        (marked, "a sentence mark, <s> or </s>, at an end, which is taken for a word", "remove the marks"),
        (with_fields, "`|||`, which is taken for a word", "give the text of one language in each file"),
    ):
        # A few lines may be sentences about marks or separators.
        if count > _FEW_LINES and count >= _SMALL_SHARE * number:
            log(f"{name}: {count:,} of {counted(number, 'line')} have {fault}; {remedy}")


def parallel_lines(
    *paths: str | Path, read: Callable[[str | Path], Iterator[bytes]] = text_lines
) -> Iterator[tuple[bytes, ...]]:
    """Yield the lines of parallel texts together; texts that differ in length are an error, found at the last line."""
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


def report_one_sided(rows: Iterable[_Row], paths: tuple[str | Path, str | Path], log: Log) -> Iterator[_Row]:
    """Yield the lines of parallel texts; log how many are empty on one side only, a sign of a misalignment."""
    count = first = 0
    for number, row in enumerate(rows, 1):
        if bool(row[0].strip()) != bool(row[1].strip()):
            count += 1
            first = first or number
        yield row
    if count:
        verb = "is" if count == 1 else "are"
        log(
            f"{display_name(paths[0])} and {display_name(paths[1])}: {counted(count, 'line')} {verb} empty on one side "
            f"only, the first is line {first}; check that the lines of both files belong together"
        )


def warn_one_sided(rows: Iterable[_Row], paths: tuple[str | Path, str | Path], log: Log) -> None:
    """Log how many lines are empty on one side only, as `report_one_sided` does."""
    deque(report_one_sided(rows, paths, log), maxlen=0)


def chunks(items: Iterable[_Item], most: int) -> Iterator[list[_Item]]:
    """Yield chunks of at most `most` texts, or tuples of texts and other values; chunks of long texts have fewer."""
    chunk: list[_Item] = []
    total = 0
    for item in items:
        chunk.append(item)
        parts = item if isinstance(item, tuple) else (item,)
        total += sum(len(part) for part in parts if isinstance(part, str | bytes))
        if len(chunk) == most or total >= _CHUNK_BYTES:
            yield chunk
            chunk, total = [], 0
    if chunk:
        yield chunk
