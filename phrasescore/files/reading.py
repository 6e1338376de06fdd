"""Inputs: streams that may be pipes and may be compressed, regular files as raw bytes, and what a path names.

`-` is standard input. Compression is detected from the first bytes, never from the name.
"""

from __future__ import annotations

import bz2
import errno
import fcntl
import hashlib
import io
import lzma
import os
import re
import sys
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

from xopen import xopen

from phrasescore.errors import InputError, UsageError, UserError

if TYPE_CHECKING:
    from _typeshed import WriteableBuffer

STANDARD_STREAM = "-"
STDIN, STDOUT, STDERR = range(3)
"""File descriptors."""
DESCRIPTORS = {"/dev/stdout": STDOUT, "/dev/stderr": STDERR, "/dev/fd/1": STDOUT, "/dev/fd/2": STDERR}
"""Paths of standard streams that programs write to."""
MAGIC_LENGTH = 10
"""The number of bytes that identify a compression format."""
LONGEST_LINE = 1 << 20
"""The maximum length of a line in bytes; data without line ends could be of any size."""
_MAGIC = {b"\x1f\x8b": "gz", b"\x28\xb5\x2f\xfd": "zst", b"\xfd7zXZ\x00": "xz"}
# Zstandard frames without content (RFC 8878, 3.1.2); the output of `pzstd` begins with one.
_MAGIC |= {bytes([first]) + b"*M\x18": "zst" for first in range(0x50, 0x60)}
# A text may begin with BZh. In bzip2 a level follows, and then the start of a block or the end of the stream.
_BZIP2 = re.compile(rb"BZh[1-9](1AY&SY|\x17\x72\x45\x38\x50\x90)")
_ZEROS = bytes(10)
"""A gzip file ends in at most nine zeros: those of an empty member."""
# Small, because the rest of the buffer is copied after each stream.
_BYTES_TO_DECOMPRESS = 1 << 13


# Paths


def display_name(path: object) -> str:
    """Return the name of an input, a path or several, in messages."""
    return "standard input" if str(path) == STANDARD_STREAM else str(path)


def real_path(path: str | Path) -> Path:
    """Return an absolute path without links; a link loop is kept, on which `Path.resolve` may fail."""
    return Path(os.path.realpath(path))


def is_device_or_pipe(path: str | Path) -> bool:
    """Return whether a path is a device or pipe, such as `/dev/null` or the `/dev/fd/63` of the shell's `>(...)`.

    Names of standard output and standard error count as devices even if these are files, because a command must not
    replace a file to which its shell appends. Pass the path as the user gave it: an anonymous pipe resolves to a path
    that does not exist.
    """
    if str(path) in DESCRIPTORS:
        return True
    return Path(path).exists() and not Path(path).is_file() and not Path(path).is_dir()


def is_stream(path: str | Path) -> bool:
    """Return whether a path is a standard stream, a pipe or a device, which can be read and written only once."""
    return str(path) == STANDARD_STREAM or is_device_or_pipe(path)


def require_rereadable(*paths: str | Path | None, why: str) -> None:
    """Raise UserError, with the reason `why`, if an input can be read only once; None is ignored."""
    for path in paths:
        if path is not None and is_stream(path):
            raise UserError(f"{display_name(path)}: can be read only once, but {why}; give a file")


def require_one_standard_input(*paths: str | Path | None) -> None:
    """Raise UsageError if several inputs are standard input; None is ignored."""
    if [str(path) for path in paths].count(STANDARD_STREAM) > 1:
        raise UsageError(f"{STANDARD_STREAM}: standard input can be one input only; give files for the others")


def require_folder(path: Path) -> None:
    """Raise UserError if a path is a file."""
    if path.exists() and not path.is_dir():
        raise UserError(f"{path}: is a file; give the name of a folder")


def make_folder(path: Path) -> None:
    """Create a folder and its parents if they do not exist."""
    require_folder(path)
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UserError(f"{path}: cannot be made ({error.strerror}); check the folder and its rights") from error


# Standard streams


def complete_standard_streams() -> None:
    """Reopen closed standard streams, so that no file gets their descriptors; their use fails (`require_open`)."""
    for descriptor, name, flags in (
        (STDIN, "stdin", os.O_WRONLY),
        (STDOUT, "stdout", os.O_RDONLY),
        (STDERR, "stderr", os.O_WRONLY),
    ):
        try:
            os.fstat(descriptor)
        except OSError:
            # The lowest free descriptor is this one. Child processes inherit it, because they need it as well.
            os.set_inheritable(os.open(os.devnull, flags), True)
        # Python sets streams to None that were closed when it started.
        if getattr(sys, name) is None:
            mode = "w" if descriptor else "r"
            setattr(sys, name, open(descriptor, mode, errors="backslashreplace", closefd=False))  # noqa: SIM115


def require_open(descriptor: int) -> None:
    """Raise UserError if standard input (0) or output (1) was closed at the start."""
    access = fcntl.fcntl(descriptor, fcntl.F_GETFL) & os.O_ACCMODE
    if descriptor == STDIN and access == os.O_WRONLY:
        raise UserError("standard input: is closed; give a file, or leave it open")
    if descriptor == STDOUT and access == os.O_RDONLY:
        raise UserError("standard output: is closed; write to a file, or leave it open")


# Compressed streams


@dataclass(frozen=True)
class Input:
    """An open input file."""

    stream: BinaryIO
    raw: BinaryIO

    def share_read(self) -> float | None:
        """Return the fraction of the file that has been read, None for a pipe."""
        size = os.fstat(self.raw.fileno()).st_size
        return os.lseek(self.raw.fileno(), 0, os.SEEK_CUR) / size if size and self.raw.seekable() else None


class _InputFile(io.FileIO):
    """A file whose first read gets enough bytes to detect compression, even if a pipe delivers them one by one."""

    _is_at_start = True

    def readinto(self, buffer: WriteableBuffer) -> int:
        view = memoryview(buffer).cast("B")
        count = more = super().readinto(view) or 0
        while more and self._is_at_start and _may_be_compressed(bytes(view[:count])):
            more = super().readinto(view[count:]) or 0
            count += more
        self._is_at_start = False
        return count


def _may_be_compressed(head: bytes) -> bool:
    """Whether more bytes decide it; False after a line end, so that interactive input is read at once."""
    is_start = any(magic.startswith(head[: len(magic)]) for magic in (*_MAGIC, b"BZh"))
    return len(head) < MAGIC_LENGTH and is_start and b"\n" not in head


@contextmanager
def open_input(path: str | Path) -> Iterator[Input]:
    """Open a file, `-` for standard input, as decompressed bytes; reading corrupt data is an InputError."""
    is_stdin = str(path) == STANDARD_STREAM
    if is_stdin:
        require_open(STDIN)
    try:
        raw = io.BufferedReader(_InputFile(STDIN if is_stdin else path, closefd=not is_stdin), 1 << 20)
    except OSError as error:
        raise _unreadable(display_name(path), error) from error
    with raw:
        # Another process that shares standard input may have made it non-blocking.
        os.set_blocking(raw.fileno(), True)
        try:
            compression = detect_format(raw.peek(MAGIC_LENGTH))
            if compression is None:
                yield Input(raw, raw)
            else:
                with _decompressing(raw, compression) as stream:
                    yield Input(stream, raw)
        except Exception as error:
            if not _is_decompression_error(error):
                raise
            raise InputError(
                f"{display_name(path)}: the compressed data is truncated or corrupt ({error}); "
                "make or copy the file again and check it with the compressor's own test"
            ) from error


def detect_format(head: bytes) -> str | None:
    """Return the compression format that the first bytes of a file indicate, None for uncompressed data."""
    if _BZIP2.match(head):
        return "bz2"
    return next((name for magic, name in _MAGIC.items() if head.startswith(magic)), None)


def _decompressing(raw: BinaryIO, compression: str) -> BinaryIO:
    if compression == "xz":
        return io.BufferedReader(_Streams(raw, partial(lzma.LZMADecompressor, lzma.FORMAT_XZ)))
    if compression == "bz2":
        return io.BufferedReader(_Streams(raw, bz2.BZ2Decompressor))
    if compression == "gz":
        _require_end_of_member(raw)
    return xopen(raw, "rb", threads=0, format=compression)


def _require_end_of_member(raw: BinaryIO) -> None:
    """Reject a gzip file that ends in zeros, as a power failure leaves them; gzip readers ignore them."""
    size = os.fstat(raw.fileno()).st_size
    if raw.seekable() and os.pread(raw.fileno(), len(_ZEROS), max(0, size - len(_ZEROS))) == _ZEROS:
        raise EOFError("it ends in zeros")


class _Streams(io.RawIOBase):
    """Concatenated xz or bzip2 streams; Python's readers take invalid data after a stream for the end of the file."""

    def __init__(self, file: BinaryIO, begin: Callable[[], lzma.LZMADecompressor | bz2.BZ2Decompressor]) -> None:
        self._file, self._begin = file, begin
        self._stream = begin()

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: WriteableBuffer) -> int:
        view, data = memoryview(buffer).cast("B"), b""
        while not data:
            compressed = b""
            if self._stream.eof:
                compressed = self._stream.unused_data or self._file.read(_BYTES_TO_DECOMPRESS)
                if not compressed:
                    return 0
                self._stream = self._begin()
            elif self._stream.needs_input:
                compressed = self._file.read(_BYTES_TO_DECOMPRESS)
                if not compressed:
                    raise EOFError("it ends in the middle")
            data = self._stream.decompress(compressed, len(view))
        view[: len(data)] = data
        return len(data)


def _is_decompression_error(error: BaseException) -> bool:
    # The error classes of isal and zstd derive directly from Exception, so their names are compared.
    return (
        isinstance(error, EOFError | zlib.error | lzma.LZMAError)
        or type(error).__name__ in {"IsalError", "ZstdError"}
        or (isinstance(error, OSError) and error.errno is None)
    )


def read_bytes(path: str | Path) -> bytes:
    """Return the decompressed content of a file."""
    with open_input(path) as source:
        return source.stream.read()


def bounded_lines(stream: BinaryIO, name: str) -> Iterator[tuple[int, bytes]]:
    """Yield the line numbers, from 1, and lines of an open file with their ends; only a line feed ends a line."""
    for number, line in enumerate(iter(partial(stream.readline, LONGEST_LINE + 1), b""), 1):
        if len(line) > LONGEST_LINE:
            raise UserError(
                f"{name}: line {number}: is longer than {LONGEST_LINE:,} bytes; check that it is the file meant"
            )
        yield number, line


def read_lines(path: str | Path) -> Iterator[bytes]:
    """Yield the lines of a file without their ends; see `open_input` and `bounded_lines`."""
    with open_input(path) as source:
        for _, line in bounded_lines(source.stream, display_name(path)):
            yield line.rstrip(b"\r\n")


# Regular files


def open_regular(path: Path) -> io.BufferedReader:
    """Open a regular file, or a link to one, as raw bytes; a pipe, a device or a folder is an error."""
    if path.exists() and not path.is_file():
        raise UserError(f"{path}: is a pipe, a device or a folder; give a file")
    try:
        return path.open("rb")
    except OSError as error:
        raise _unreadable(str(path), error) from error


def read_regular(path: Path, largest: int) -> bytes:
    """Return the raw content of a regular file of at most `largest` bytes; see `open_regular`."""
    with open_regular(path) as file:
        # A sparse file may be larger than any disk, and a file may grow while it is read.
        if os.fstat(file.fileno()).st_size > largest or len(content := file.read(largest + 1)) > largest:
            raise UserError(f"{path}: is larger than {largest:,} bytes; check that it is the file meant")
    return content


def sha256_of(path: Path) -> str:
    """Return the SHA-256 of the raw bytes of a regular file in hexadecimal digits; see `open_regular`."""
    with open_regular(path) as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def sha256_of_input(path: str | Path) -> str | None:
    """Return the SHA-256 of the raw bytes of an input; None for standard input and pipes, which are read only once."""
    return None if is_stream(path) else sha256_of(Path(path))


def compressed_form(name: str | Path) -> str | None:
    """Return the name with the suffix `.gz` if that file exists, else None."""
    compressed = f"{name}.gz"
    return compressed if os.path.exists(compressed) else None  # noqa: PTH110


def _unreadable(name: str, error: OSError) -> UserError:
    remedy = "check the path and its rights"
    if error.errno == errno.ENOENT and (compressed := compressed_form(name)):
        remedy = f"give {compressed}, which is there"
    return UserError(f"{name}: cannot be read ({error.strerror}); {remedy}")
