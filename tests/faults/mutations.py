"""Mutations of input files: their bytes, fields, numbers, nesting and size, or the file itself.

A mutation of content is a function of a random generator and bytes; a mutation of a file changes a path. Mutated files
stay small, but a program may expand them.
"""

from __future__ import annotations

import functools
import gzip
import io
import os
import re
from collections.abc import Callable
from pathlib import Path
from random import Random

from xopen import xopen

Mutation = Callable[[Random, bytes], bytes]
FileMutation = Callable[[Random, Path], None]

_NUMBER = re.compile(rb"-?\d+(?:\.\d+)?(?:[eE][-+]?\d+)?")
_SEPARATORS = (b" ||| ", b"\t", b" ", b"=", b",", b"-")
_UNUSUAL_NUMBERS = (
    *(b"nan", b"NaN", b"inf", b"-inf", b"Infinity", b"-Infinity", b"-1", b"-0.5", b"0", b"-0", b"1e400", b"1e39"),
    *(
        b"1e-400",
        b"1e-45",
        b"9" * 400,
        b"0." + b"3" * 400,
        b"1_0",
        b"0x1p3",
        b"1,5",
        b"+1",
        b".5",
        b"5.",
        b"1e",
        b"1e+",
    ),
    *("٣".encode(), "²".encode(), b"true", b'"0.5"', b"null", b"[]", b"{}", b"abc", b"", b"1.5", b"2", b"3.4e38"),
)
_HUGE = (b"1000000", b"1000000000", b"99999999999", b"18446744073709551616")
_DEEP = 20_000
_LONG = 100_000


# Bytes


def flip_bit(random: Random, content: bytes) -> bytes:
    place = random.randrange(len(content))
    return content[:place] + bytes([content[place] ^ 1 << random.randrange(8)]) + content[place + 1 :]


def cut(random: Random, content: bytes) -> bytes:
    """Remove a random range, often up to the end."""
    first = random.randrange(len(content))
    last = len(content) if random.random() < 0.5 else min(len(content), first + random.randint(1, 40))
    return content[:first] + content[last:]


def insert(random: Random, content: bytes) -> bytes:
    """Insert bytes that are special in some format."""
    pieces = (
        b"\0",
        b"\n",
        b"\r",
        b"\t",
        b" ",
        b"|||",
        b"\xff",
        b"\x1b[2J",
        b"\xc2\xa0",
        b"\xe2\x80\xa8",
        b"\xef\xbb\xbf",
    )
    place = random.randrange(len(content) + 1)
    return content[:place] + random.choice(pieces) + content[place:]


def repeat(random: Random, content: bytes) -> bytes:
    """Repeat a random range."""
    first = random.randrange(len(content))
    last = first + random.randint(1, 200)
    return content[:last] + content[first:]


def swap(random: Random, content: bytes) -> bytes:
    """Exchange two adjacent ranges."""
    first, middle, last = sorted(random.randrange(len(content) + 1) for _ in range(3))
    return content[:first] + content[middle:last] + content[first:middle] + content[last:]


def as_utf16(random: Random, content: bytes) -> bytes:
    """Encode in UTF-16, with or without a byte order mark."""
    return content.decode("latin-1").encode(random.choice(("utf-16", "utf-16-le", "utf-16-be")))


def as_latin1(_: Random, content: bytes) -> bytes:
    """Encode in Latin-1, with some accented letters that are invalid UTF-8."""
    return content.decode(errors="replace").replace("e", "é", 3).encode("latin-1", "replace")


def with_bom(_: Random, content: bytes) -> bytes:
    """Prepend the UTF-8 byte order mark."""
    return b"\xef\xbb\xbf" + content


def with_crlf(_: Random, content: bytes) -> bytes:
    """Use CRLF line endings."""
    return content.replace(b"\n", b"\r\n")


def without_end(_: Random, content: bytes) -> bytes:
    """Remove the final newline."""
    return content.rstrip(b"\n")


# Lines and fields


def _in_line(random: Random, content: bytes, change: Callable[[bytes], bytes]) -> bytes:
    lines = content.split(b"\n")
    place = random.randrange(len(lines))
    lines[place] = change(lines[place])
    return b"\n".join(lines)


def drop_line(random: Random, content: bytes) -> bytes:
    lines = content.split(b"\n")
    del lines[random.randrange(len(lines))]
    return b"\n".join(lines)


def double_line(random: Random, content: bytes) -> bytes:
    return _in_line(random, content, lambda line: line + b"\n" + line)


def empty_line(random: Random, content: bytes) -> bytes:
    """Insert an empty line or a line of spaces."""
    return _in_line(random, content, lambda line: random.choice((b"", b" ", b"\t", line + b"\n")))


def change_fields(random: Random, content: bytes) -> bytes:
    """Drop, empty, duplicate or exchange fields of a line."""

    def change(line: bytes) -> bytes:
        separator = random.choice([one for one in _SEPARATORS if one in line] or [b" "])
        fields = line.split(separator)
        place, other = random.randrange(len(fields)), random.randrange(len(fields))
        kind = random.randrange(4)
        if kind == 0:
            del fields[place]
        elif kind == 1:
            fields[place] = b""
        elif kind == 2:
            fields.insert(place, fields[place])
        else:
            fields[place], fields[other] = fields[other], fields[place]
        return separator.join(fields)

    return _in_line(random, content, change)


def change_separators(random: Random, content: bytes) -> bytes:
    """Change one field separator of a line."""
    pairs = (
        *((b" ||| ", new) for new in (b"|||", b" |||", b"\t|||\t", b" || ")),
        *((b" ", new) for new in (b"\t", b"  ", "\u00a0".encode())),
        *((b"=", b" = "), (b":", b""), (b"-", b" - "), (b"\t", b" ")),
    )

    def change(line: bytes) -> bytes:
        old, new = random.choice([pair for pair in pairs if pair[0] in line] or [(b"", b" ")])
        place = random.choice([found.start() for found in re.finditer(re.escape(old), line)])
        return line[:place] + new + line[place + len(old) :]

    return _in_line(random, content, change)


# Numbers


def _with_number(random: Random, content: bytes, numbers: tuple[bytes, ...]) -> bytes:
    found = list(_NUMBER.finditer(content))
    if not found:
        return insert(random, content)
    place = random.choice(found)
    return content[: place.start()] + random.choice(numbers) + content[place.end() :]


def unusual_number(random: Random, content: bytes) -> bytes:
    """Replace a number with an invalid or unusual one."""
    return _with_number(random, content, _UNUSUAL_NUMBERS)


def huge_number(random: Random, content: bytes) -> bytes:
    """Replace a number with a huge one."""
    return _with_number(random, content, _HUGE)


def not_finite(random: Random, content: bytes) -> bytes:
    """Overwrite four aligned bytes with a 32-bit float that is NaN, infinite or large."""
    place = random.randrange(max(1, len(content) // 4)) * 4
    bits = random.choice((b"\0\0\xc0\x7f", b"\0\0\x80\x7f", b"\0\0\x80\xff", b"\xff\xff\x7f\x7f", b"\0\0\xc8\x42"))
    return content[:place] + bits + content[place + 4 :]


# Values of JSON and TOML


def _with_value(random: Random, content: bytes, new: bytes) -> bytes:
    """Replace a value that follows `:` or `=`."""
    found = list(re.finditer(rb'(?<=[:=])[ ]?("[^"\n]*"|[\w.+-]+)', content))
    if not found:
        return content + new
    place = random.choice(found)
    return content[: place.start()] + new + content[place.end() :]


def other_value(random: Random, content: bytes) -> bytes:
    """Replace a value with one of another type."""
    texts = (
        b'"/etc/passwd"',
        b'"../../x"',
        b'""',
        b'"\\u0000"',
        b'"\\ud800"',
        b"[1, 2]",
        b"{}",
        b"3",
        b"false",
        b'"gru"',
    )
    return _with_value(random, content, random.choice((*texts, *_UNUSUAL_NUMBERS)))


def deep(random: Random, content: bytes) -> bytes:
    opening, closing = random.choice(((b"[", b"]"), (b'{"a":', b"}"), (b"[", b""), (b"{a=", b"}"), (b"((", b"))")))
    nested = opening * _DEEP + (b"1" if closing else b"") + closing * _DEEP
    return nested if random.random() < 0.3 else _with_value(random, content, nested)


# Sizes


def long_word(random: Random, content: bytes) -> bytes:
    """Replace a word with a very long one."""
    return _in_line(random, content, lambda line: b"x" * _LONG + line)


def many_words(random: Random, content: bytes) -> bytes:
    """Extend a field to hundreds of words."""

    def change(line: bytes) -> bytes:
        separator = b" ||| " if b" ||| " in line else b"\t"
        fields = line.split(separator)
        place = random.randrange(len(fields))
        fields[place] += b" x" * 500
        return separator.join(fields)

    return _in_line(random, content, change)


def many_lines(random: Random, content: bytes) -> bytes:
    """Repeat a line a few hundred times."""
    lines = content.split(b"\n")
    place = random.randrange(len(lines))
    return b"\n".join([*lines[:place], *[lines[place]] * 300, *lines[place:]])


# Files


def missing(_: Random, path: Path) -> None:
    """Delete the file."""
    path.unlink()


def empty(_: Random, path: Path) -> None:
    """Truncate the file to zero bytes."""
    path.write_bytes(b"")


def folder(_: Random, path: Path) -> None:
    """Replace the file with a folder."""
    path.unlink()
    path.mkdir()


def pipe(_: Random, path: Path) -> None:
    """Replace the file with a named pipe without a writer."""
    path.unlink()
    os.mkfifo(path)


def looping_link(_: Random, path: Path) -> None:
    """Replace the file with a symbolic link to itself."""
    path.unlink()
    path.symlink_to(path.name)


def device(_: Random, path: Path) -> None:
    """Replace the file with a link to an endless device."""
    path.unlink()
    path.symlink_to("/dev/zero")


def unreadable(_: Random, path: Path) -> None:
    """Remove read permission; the superuser can read the file regardless."""
    path.chmod(0)


def bomb(random: Random, path: Path) -> None:
    """Replace the file with a small one that decompresses to 2 GB."""
    path.write_bytes(_bomb(random.choice(("gz", "zst"))))


@functools.cache
def _bomb(compression: str) -> bytes:
    member = io.BytesIO()
    with xopen(member, "wb", format=compression, threads=0) as stream:
        stream.write(b" " * (64 << 20))
    # Concatenated compressed files decompress as one file.
    return member.getvalue() * 32


def compressed(random: Random, path: Path) -> None:
    """Compress the file and sometimes damage the compressed bytes."""
    content = gzip.compress(path.read_bytes(), mtime=0)
    path.write_bytes(random.choice((lambda _, same: same, flip_bit, cut))(random, content))


CONTENT: dict[str, tuple[Mutation, ...]] = {
    "bytes": (flip_bit, cut, insert, repeat, swap, as_utf16, as_latin1, with_bom, with_crlf, without_end),
    "fields": (drop_line, double_line, empty_line, change_fields, change_fields, change_separators, change_separators),
    "numbers": (unusual_number, unusual_number, unusual_number, huge_number, not_finite),
    "values": (other_value, other_value, deep),
    "sizes": (long_word, many_words, many_lines, huge_number),
}
GIVEN: tuple[FileMutation, ...] = (missing, empty, folder, looping_link, unreadable, bomb, compressed)
FILE: tuple[FileMutation, ...] = (*GIVEN, device, pipe)
