"""Inputs as streams of bytes, also from pipes; compression is told by a file's first bytes, never by its name."""

from __future__ import annotations

import io
import lzma
import os
import re
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

from xopen import xopen

from phrasescore.errors import UserError
from phrasescore.files.regular import unreadable
from phrasescore.files.streams import STANDARD_STREAM, STDIN, display_name, require_open

if TYPE_CHECKING:
    from _typeshed import WriteableBuffer

_MAGIC = {b"\x1f\x8b": "gz", b"\x28\xb5\x2f\xfd": "zst", b"\xfd7zXZ\x00": "xz"}
# A text may well begin with BZh: in bzip2 a level follows, and then the start of a block or the end of the stream.
_BZIP2 = re.compile(rb"BZh[1-9](1AY&SY|\x17\x72\x45\x38\x50\x90)")
_STARTS = (*_MAGIC, b"BZh")
MAGIC_LENGTH = 10
"""Bytes that tell a compressed file."""


def _is_decompression_error(error: BaseException) -> bool:
    """Whether a decompressor met bytes that are not what they claim to be."""
    # isal's and zstd's own error classes derive from Exception alone, so they are told by name.
    damaged = (EOFError, zlib.error, lzma.LZMAError)
    return (
        isinstance(error, damaged)
        or type(error).__name__ in {"IsalError", "ZstdError", "BadGzipFile"}
        or (isinstance(error, OSError) and error.errno is None)
    )


def detect_format(head: bytes) -> str | None:
    """The compression format that a file's first bytes announce, or None for plain data."""
    if _BZIP2.match(head):
        return "bz2"
    return next((name for magic, name in _MAGIC.items() if head.startswith(magic)), None)


@dataclass(frozen=True)
class Input:
    """An open input file."""

    stream: BinaryIO
    """The decompressed bytes."""
    raw: BinaryIO

    def share_read(self) -> float | None:
        """Return the share of the file that was read so far, None for a pipe."""
        size = os.fstat(self.raw.fileno()).st_size
        return os.lseek(self.raw.fileno(), 0, os.SEEK_CUR) / size if size and self.raw.seekable() else None


class _InputFile(io.FileIO):
    """A file whose first read brings what tells its format, though a pipe may hand over its first bytes one by one."""

    _is_at_start = True

    def readinto(self, buffer: WriteableBuffer) -> int | None:
        """Read some bytes; return how many, 0 at the end."""
        view = memoryview(buffer).cast("B")
        count = super().readinto(view) or 0
        while self._is_at_start and _may_tell_more(bytes(view[:count])):
            more = super().readinto(view[count:])
            if not more:
                break
            count += more
        self._is_at_start = False
        return count


def _may_tell_more(head: bytes) -> bool:
    """Whether the bytes after some first ones can decide which format they are; not so if they end a typed line."""
    is_start = any(magic[: len(head)] == head[: len(magic)] for magic in _STARTS)
    return 0 < len(head) < MAGIC_LENGTH and is_start and b"\n" not in head


@contextmanager
def open_input(path: str | Path) -> Iterator[Input]:
    """Open a possibly compressed file, or standard input for `-`, as decompressed bytes.

    Raises:
        UserError: the file cannot be opened, is closed standard input, or turns out truncated or corrupt while it is
            read.
    """
    name = display_name(path)
    is_stdin = str(path) == STANDARD_STREAM
    if is_stdin:
        require_open(STDIN)
    try:
        raw = io.BufferedReader(_InputFile(STDIN if is_stdin else path, closefd=not is_stdin), 1 << 20)
    except OSError as error:
        raise unreadable(name, error) from error
    with raw:
        try:
            compression = detect_format(raw.peek(MAGIC_LENGTH))
            if compression is None:
                yield Input(raw, raw)
            else:
                with xopen(raw, "rb", threads=0, format=compression) as stream:
                    yield Input(stream, raw)
        except Exception as error:
            if _is_decompression_error(error):
                raise UserError(
                    f"{name}: the compressed data is truncated or corrupt ({error}); "
                    "make or copy the file again and check it with the compressor's own test"
                ) from error
            raise


def read_bytes(path: str | Path) -> bytes:
    """Return the decompressed content of a file."""
    with open_input(path) as source:
        return source.stream.read()


def read_lines(path: str | Path) -> Iterator[bytes]:
    """Yield the lines of a file, split on the line feed alone, without their ends."""
    with open_input(path) as source:
        for line in source.stream:
            yield line.rstrip(b"\r\n")
