"""Inputs as byte streams, including pipes; compression is detected from the first bytes, never from the name."""

from __future__ import annotations

import bz2
import io
import lzma
import os
import re
import select
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

from xopen import xopen

from phrasescore.errors import InputError, UserError
from phrasescore.files.regular import unreadable
from phrasescore.files.streams import STANDARD_STREAM, STDIN, display_name, require_open

if TYPE_CHECKING:
    from _typeshed import WriteableBuffer

_MAGIC = {b"\x1f\x8b": "gz", b"\x28\xb5\x2f\xfd": "zst", b"\xfd7zXZ\x00": "xz"}
# Zstandard frames without content (RFC 8878, 3.1.2); the output of `pzstd` begins with one.
_MAGIC |= {bytes([first]) + b"*M\x18": "zst" for first in range(0x50, 0x60)}
# A text may begin with BZh. In bzip2 a level follows, and then the start of a block or the end of the stream.
_BZIP2 = re.compile(rb"BZh[1-9](1AY&SY|\x17\x72\x45\x38\x50\x90)")
_STARTS = (*_MAGIC, b"BZh")
# A gzip file can end in at most nine zeros: those of an empty member.
_ZEROS_OF_NO_MEMBER = bytes(10)
# Small, because the rest of the buffer is copied after each stream.
_BYTES_TO_DECOMPRESS = 1 << 13
_BYTES_AT_ONCE = 1 << 20
MAGIC_LENGTH = 10
"""The number of bytes that identify a compression format."""
LONGEST_LINE = 1 << 20
"""The maximum length of a line in bytes; data without line ends could be of any size."""


def _is_decompression_error(error: BaseException) -> bool:
    """Return whether a decompressor found invalid data."""
    # The error classes of isal and zstd derive directly from Exception, so their names are compared.
    damaged = (EOFError, zlib.error, lzma.LZMAError)
    return (
        isinstance(error, damaged)
        or type(error).__name__ in {"IsalError", "ZstdError", "BadGzipFile"}
        or (isinstance(error, OSError) and error.errno is None)
    )


def detect_format(head: bytes) -> str | None:
    """Return the compression format that the first bytes of a file indicate, None for uncompressed data."""
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
        """Return the fraction of the file that has been read, None for a pipe."""
        size = os.fstat(self.raw.fileno()).st_size
        return os.lseek(self.raw.fileno(), 0, os.SEEK_CUR) / size if size and self.raw.seekable() else None


class _InputFile(io.FileIO):
    """A file whose first read returns enough bytes to detect the format, even if a pipe delivers them one by one."""

    _is_at_start = True
    _is_gzip = False
    _last_bytes = b""

    def readinto(self, buffer: WriteableBuffer) -> int:
        """Read some bytes; return their number, 0 at the end.

        Raises:
            EOFError: a gzip file ends in zeros.
        """
        view = memoryview(buffer).cast("B")
        count = self._wait_and_read(view)
        while self._is_at_start and _may_tell_more(bytes(view[:count])):
            more = self._wait_and_read(view[count:])
            if not more:
                break
            count += more
        if self._is_at_start:
            self._is_at_start, self._is_gzip = False, detect_format(bytes(view[:count])) == "gz"
        if self._is_gzip:
            self._require_end_of_member(bytes(view[max(0, count - len(_ZEROS_OF_NO_MEMBER)) : count]))
        return count

    def _wait_and_read(self, view: memoryview) -> int:
        """Read some bytes; return their number, 0 at the end."""
        while (count := super().readinto(view)) is None:
            # The descriptor is non-blocking: no data is available yet, which is not the end of the file.
            waiting = select.poll()
            waiting.register(self, select.POLLIN)
            waiting.poll()
        return count

    def _require_end_of_member(self, read: bytes) -> None:
        """Reject a gzip file that ends in zeros, which gzip readers ignore.

        The program `gzip` ignores them for the sake of tapes, though RFC 1952 allows no padding. Trailing zeros are
        usually what a power failure or an interrupted download leaves in place of the last members. Zeros between two
        members are not detected, because that would require a custom and slower gzip reader.
        """
        if not read and self._last_bytes == _ZEROS_OF_NO_MEMBER:
            raise EOFError("it ends in zeros")
        self._last_bytes = (self._last_bytes + read)[-len(_ZEROS_OF_NO_MEMBER) :]


class _Streams(io.RawIOBase):
    """The content of concatenated xz or bzip2 streams.

    Python's own readers treat invalid data after a stream as the end of the file, so damage there would go unnoticed.
    """

    def __init__(
        self, file: BinaryIO, begin: Callable[[], lzma.LZMADecompressor | bz2.BZ2Decompressor], padding: int
    ) -> None:
        """Read a file; multiples of `padding` zeros may follow each stream, none if `padding` is 0."""
        self._file, self._begin, self._padding = file, begin, padding
        self._stream = begin()

    def readable(self) -> bool:
        """Return True."""
        return True

    def readinto(self, buffer: WriteableBuffer) -> int:
        """Read some bytes; return their number, 0 at the end.

        Raises:
            EOFError: the last stream is truncated.
            OSError: the data is not a bzip2 stream.
            lzma.LZMAError: the data is not an xz stream.
        """
        view = memoryview(buffer).cast("B")
        data = b""
        while not data:
            if self._stream.eof:
                compressed = self._after_stream()
                if not compressed:
                    return 0
                self._stream = self._begin()
            else:
                compressed = self._file.read(_BYTES_TO_DECOMPRESS) if self._stream.needs_input else b""
                if self._stream.needs_input and not compressed:
                    raise EOFError("it ends in the middle")
            data = self._stream.decompress(compressed, len(view))
        view[: len(data)] = data
        return len(data)

    def _after_stream(self) -> bytes:
        """Return the first bytes of the next stream, or no bytes at the end."""
        found = self._stream.unused_data or self._file.read(_BYTES_TO_DECOMPRESS)
        zeros = 0
        while self._padding and found.startswith(b"\0"):
            rest = found.lstrip(b"\0")
            zeros += len(found) - len(rest)
            found = rest or self._file.read(_BYTES_TO_DECOMPRESS)
        if zeros and zeros % self._padding:
            raise lzma.LZMAError("zeros that are no padding")
        return found


def _may_tell_more(head: bytes) -> bool:
    """Return whether more bytes can decide the format; False after a line end, to not delay interactive input."""
    is_start = any(magic[: len(head)] == head[: len(magic)] for magic in _STARTS)
    return 0 < len(head) < MAGIC_LENGTH and is_start and b"\n" not in head


def _decompressing(raw: BinaryIO, compression: str) -> BinaryIO:
    if compression == "xz":
        return io.BufferedReader(_Streams(raw, partial(lzma.LZMADecompressor, lzma.FORMAT_XZ), padding=4))
    if compression == "bz2":
        return io.BufferedReader(_Streams(raw, bz2.BZ2Decompressor, padding=0))
    return xopen(raw, "rb", threads=0, format=compression)


@contextmanager
def open_input(path: str | Path) -> Iterator[Input]:
    """Open a possibly compressed file, or standard input for `-`, as decompressed bytes.

    Raises:
        InputError: the file is truncated or corrupt, which may be detected only during reading.
        UserError: the file cannot be opened, or standard input is closed.
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
                with _decompressing(raw, compression) as stream:
                    yield Input(stream, raw)
        except Exception as error:
            if _is_decompression_error(error):
                raise InputError(
                    f"{name}: the compressed data is truncated or corrupt ({error}); "
                    "make or copy the file again and check it with the compressor's own test"
                ) from error
            raise


def read_bytes(path: str | Path) -> bytes:
    """Return the decompressed content of a file."""
    with open_input(path) as source:
        # read() without a size would take a non-blocking descriptor without data for the end of the file.
        return b"".join(iter(partial(source.stream.read, _BYTES_AT_ONCE), b""))


def bounded_lines(stream: BinaryIO, name: str) -> Iterator[tuple[int, bytes]]:
    """Yield the line numbers, from 1, and lines of an open file with their ends; only a line feed ends a line.

    Raises:
        UserError: a line is longer than `LONGEST_LINE`; messages call the file `name`.
    """
    for number, line in enumerate(iter(partial(stream.readline, LONGEST_LINE + 1), b""), 1):
        if len(line) > LONGEST_LINE:
            raise UserError(
                f"{name}: line {number}: is longer than {LONGEST_LINE:,} bytes; check that it is the file meant"
            )
        yield number, line


def read_lines(path: str | Path) -> Iterator[bytes]:
    """Yield the lines of a file without their ends; only a line feed ends a line.

    Raises:
        UserError: see `open_input` and `bounded_lines`.
    """
    with open_input(path) as source:
        for _, line in bounded_lines(source.stream, display_name(path)):
            yield line.rstrip(b"\r\n")
