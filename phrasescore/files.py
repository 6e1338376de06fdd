"""Files as byte streams: read by content, write whole or not at all.

Reading tells gzip, Zstandard, xz and bzip2 by their first bytes, never by the suffix; writing goes by the
suffix. `-` is standard input or standard output.
"""

from __future__ import annotations

import errno
import fcntl
import hashlib
import io
import json
import lzma
import math
import os
import re
import select
import stat
import sys
import zlib
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, BinaryIO

from xopen import xopen

from phrasescore.errors import UsageError, UserError

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer, WriteableBuffer

STANDARD_STREAM = "-"

_MAGIC = {b"\x1f\x8b": "gz", b"\x28\xb5\x2f\xfd": "zst", b"\xfd7zXZ\x00": "xz"}
# A text may well begin with BZh: in bzip2 a level follows, and then the start of a block or the end of the stream.
_BZIP2 = re.compile(rb"BZh[1-9](1AY&SY|\x17\x72\x45\x38\x50\x90)")
_STARTS = (*_MAGIC, b"BZh")
MAGIC_LENGTH = 10
"""Bytes that tell a compressed file."""
_SUFFIXES = {".gz": "gz", ".zst": "zst", ".xz": "xz", ".bz2": "bz2"}
# igzip level 1 writes a phrase table at several hundred MB a second; the other formats keep their defaults.
_LEVELS = {"gz": 1}
_POLL_MILLISECONDS = 100


def _is_decompression_error(error: BaseException) -> bool:
    """Whether a decompressor met bytes that are not what they claim to be."""
    # isal's and zstd's own error classes derive from Exception alone, so they are told by name.
    damaged = (EOFError, zlib.error, lzma.LZMAError)
    return (
        isinstance(error, damaged)
        or type(error).__name__ in {"IsalError", "ZstdError", "BadGzipFile"}
        or (isinstance(error, OSError) and error.errno is None)
    )


def display_name(path: str | Path) -> str:
    """What to call a path in a message."""
    return "standard input" if str(path) == STANDARD_STREAM else str(path)


def detect_format(head: bytes) -> str | None:
    """The compression format that a file's first bytes announce, or None for plain data."""
    if _BZIP2.match(head):
        return "bz2"
    return next((name for magic, name in _MAGIC.items() if head.startswith(magic)), None)


def _unreadable(name: str, error: OSError) -> UserError:
    """Return what to say of a file that cannot be read."""
    return UserError(f"{name}: cannot be read ({error.strerror}); check the path and its rights")


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
        UserError: the file cannot be opened, or turns out truncated or corrupt while it is read.
    """
    name = display_name(path)
    is_stdin = str(path) == STANDARD_STREAM
    try:
        raw = io.BufferedReader(_InputFile(0 if is_stdin else path, closefd=not is_stdin), 1 << 20)
    except OSError as error:
        raise _unreadable(name, error) from error
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


class _OutputFile(io.FileIO):
    """A file that names itself when its disk is full: who writes several at once cannot tell which one it was.

    It can be abandoned, even while a thread waits for the reader of a pipe: what is written then comes to nothing.
    """

    def __init__(self, descriptor: int, label: str) -> None:
        super().__init__(descriptor, "wb")
        self._label = label
        self._is_pipe = stat.S_ISFIFO(os.fstat(descriptor).st_mode)
        self._room = select.poll()
        self._room.register(descriptor, select.POLLOUT)
        self.is_abandoned = False

    def write(self, data: ReadableBuffer) -> int:
        """Write some bytes; return how many.

        Raises:
            UserError: the disk is full.
        """
        with full_disk_told(self._label):
            while not self.is_abandoned:
                if not self._is_pipe:
                    return super().write(data)
                # A pipe with any room takes so many bytes at once.
                if self._room.poll(_POLL_MILLISECONDS):
                    return super().write(memoryview(data)[: select.PIPE_BUF])
        return memoryview(data).nbytes


@contextmanager
def full_disk_told(label: str) -> Iterator[None]:
    """Turn the error of a full disk into a sentence; `label` is what could not be written, if the error does not say.

    Raises:
        UserError: the disk is full.
    """
    try:
        yield
    except OSError as error:
        if error.errno not in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
            raise
        raise UserError(
            f"{error.filename or label}: cannot be written ({error.strerror}); free space or write to another disk"
        ) from error


def _buffered(descriptor: int, label: str) -> io.BufferedWriter:
    return io.BufferedWriter(_OutputFile(descriptor, label), 1 << 20)


def _abandon(buffered: io.BufferedWriter) -> None:
    """Let what is in the buffer come to nothing, so that closing neither fails nor waits."""
    assert isinstance(buffered.raw, _OutputFile)
    buffered.raw.is_abandoned = True


@contextmanager
def _abandoned_on_signals(buffered: io.BufferedWriter) -> Iterator[None]:
    """Write no more when a signal unwinds the work: nobody may be reading at the other end of a pipe."""
    try:
        yield
    except (KeyboardInterrupt, SystemExit):
        _abandon(buffered)
        raise


@contextmanager
def _compressing(raw: io.BufferedWriter, compression: str | None) -> Iterator[BinaryIO]:
    """Open what compresses into a file in some format, or for None the file itself."""
    if compression is None:
        yield raw
    else:
        level = _LEVELS.get(compression)
        with xopen(raw, "wb", threads=0, format=compression, compresslevel=level) as stream:
            yield stream


def _is_device_or_pipe(path: str | Path) -> bool:
    """Whether a path leads to what bytes pass through, as `/dev/null` or the `/dev/fd/63` of a shell's `>(...)`.

    It is asked of the path as it was given: what that of a pipe without a name resolves to does not exist.
    """
    return Path(path).exists() and not Path(path).is_file() and not Path(path).is_dir()


@contextmanager
def open_output(path: str | Path, *, is_compressed: bool = False) -> Iterator[BinaryIO]:
    """Open a file that appears under its name only when it is complete.

    The data goes to the hidden `.NAME.tmp` in the same folder, is synced, then renamed over `path`, so a
    reader sees the old file or the new one and never a part. The compression follows the suffix of `path`, also
    where that is a link to another name; with `is_compressed` the bytes are compressed already.
    A run that was killed leaves the hidden file, and the next one takes it over; a lock keeps two runs from
    writing at once. A device or a named pipe is written to, not replaced. `-` is standard output, plain.

    Raises:
        UserError: the folder cannot be written, another run is writing the same file, or the disk is full.
    """
    if str(path) == STANDARD_STREAM:
        with _buffered(os.dup(sys.stdout.fileno()), "standard output") as stdout, _abandoned_on_signals(stdout):
            yield stdout
        return
    # What the user calls the file, not what a link of that name leads to.
    compression = None if is_compressed else _SUFFIXES.get(Path(path).suffix)
    if _is_device_or_pipe(path):
        with (
            _buffered(os.open(path, os.O_WRONLY | os.O_CLOEXEC), str(path)) as special,
            _compressing(special, compression) as stream,
            _abandoned_on_signals(special),
        ):
            yield stream
        return
    # A link stays a link.
    path = Path(path).resolve()
    temporary = path.with_name(f".{path.name}.tmp")
    if path.is_dir():
        raise UserError(f"{path}: is a folder; give the name of a file")
    try:
        descriptor = os.open(temporary, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
    except OSError as error:
        raise UserError(f"{path}: cannot be written ({error.strerror}); check the folder and its rights") from error
    with _buffered(descriptor, str(path)) as raw:
        # The other run may have renamed the file between our opening it and our locking it.
        if not (try_to_lock(raw) and temporary.exists() and os.path.samestat(temporary.stat(), os.fstat(descriptor))):
            raise UserError(f"{path}: another run is writing this file; wait for it or choose another name")
        try:
            raw.truncate(0)
            with _compressing(raw, compression) as stream:
                yield stream
            raw.flush()
            if path.exists():
                os.fchmod(raw.fileno(), path.stat().st_mode & 0o777)
            # Some disks tell only now that they are full.
            with full_disk_told(str(path)):
                os.fsync(raw.fileno())
            temporary.replace(path)
        except BaseException:
            temporary.unlink(missing_ok=True)
            # The disk may be full for another file's sake.
            _abandon(raw)
            raise


def require_one_standard_input(*paths: str | Path | None) -> None:
    """Check that standard input is one input at most; a path that is None is passed over.

    Raises:
        UsageError: it is given for several.
    """
    if [str(path) for path in paths].count(STANDARD_STREAM) > 1:
        raise UsageError(f"{STANDARD_STREAM}: standard input can be one input only; give files for the others")


def require_writable(*paths: str | Path | None) -> None:
    """Check before long work that its results can be written; a path that is None is passed over.

    Raises:
        UsageError: two are one file, and the later result would take the place of the earlier.
        UserError: one cannot be written.
    """
    taken = set()
    for path in paths:
        if path is None:
            continue
        is_stdout = str(path) == STANDARD_STREAM
        place = STANDARD_STREAM if is_stdout else os.path.realpath(path)
        if place in taken:
            name = "standard output" if is_stdout else path
            raise UsageError(f"{name}: is given for two outputs; give each a file of its own")
        # A device takes any number, as /dev/null.
        if is_stdout or not Path(path).is_char_device():
            taken.add(place)
        if is_stdout or _is_device_or_pipe(path):
            continue
        if Path(path).is_dir():
            raise UserError(f"{path}: is a folder; give the name of a file")
        folder = Path(path).resolve().parent
        if not os.access(folder, os.W_OK):
            reason = "may not be written to" if folder.is_dir() else "is no folder"
            raise UserError(f"{path}: cannot be written, for {folder} {reason}; check the path and its rights")


def try_to_lock(file: IO[bytes] | int) -> bool:
    """Lock an open file, or its descriptor, until it is closed; return whether nobody else holds it."""
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def write_atomically(path: Path, content: bytes) -> None:
    """Write a small file whole or not at all."""
    with open_output(path) as stream:
        stream.write(content)


def finite(value: Any) -> Any:
    """Return a value for JSON, which has neither infinity nor NaN: None stands for them."""
    if isinstance(value, dict):
        return {key: finite(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [finite(item) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def to_json(value: Any) -> bytes:
    """Return JSON for a file people read: indented, keys in the order given; see `finite`."""
    text = json.dumps(finite(value), indent=2, ensure_ascii=False, default=str) + "\n"
    # A file's name that is no UTF-8 has lone surrogates, which become JSON's escapes.
    return text.encode(errors="backslashreplace")


def write_json(path: Path, value: Any) -> None:
    """Write JSON for people to read, whole or not at all."""
    write_atomically(path, to_json(value))


def write_lines(path: str | Path, lines: Iterable[bytes]) -> None:
    """Write lines, given without their ends, whole or not at all; see `open_output`."""
    with open_output(path) as stream:
        stream.writelines(line + b"\n" for line in lines)


def read_bytes(path: str | Path) -> bytes:
    """Return the decompressed content of a file."""
    with open_input(path) as source:
        return source.stream.read()


def sha256_of(path: Path) -> str:
    """Return the SHA-256 of a file as it lies there, in hexadecimal digits.

    Raises:
        UserError: it cannot be read.
    """
    try:
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise _unreadable(str(path), error) from error


def sha256_of_input(path: str | Path) -> str | None:
    """Return the SHA-256 of an input as it lies there, None of what can be read once only: standard input, a pipe.

    Raises:
        UserError: it cannot be read.
    """
    if str(path) == STANDARD_STREAM or _is_device_or_pipe(path):
        return None
    return sha256_of(Path(path))


def read_lines(path: str | Path) -> Iterator[bytes]:
    """Yield the lines of a file, split on the line feed alone, without their ends."""
    with open_input(path) as source:
        for line in source.stream:
            yield line.rstrip(b"\r\n")
