"""Outputs: complete or absent, compressed according to the suffix of their name, written by one run at a time.

`-` is standard output.
"""

from __future__ import annotations

import errno
import fcntl
import io
import os
import sys
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import IO, TYPE_CHECKING, BinaryIO

from xopen import xopen

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

from phrasescore.errors import FullDiskError, UsageError, UserError
from phrasescore.files.reading import (
    DESCRIPTORS,
    STANDARD_STREAM,
    STDOUT,
    is_device_or_pipe,
    real_path,
    require_open,
)

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer

_SUFFIXES = {".gz": "gz", ".zst": "zst", ".xz": "xz", ".bz2": "bz2"}
# igzip level 1 writes a phrase table at several hundred MB/s; the other formats use their defaults.
_LEVELS = {"gz": 1}


# Streams


@contextmanager
def open_output(path: str | Path, *, is_compressed: bool = False) -> Iterator[BinaryIO]:
    """Open a file that appears under its name only when it is complete.

    The data goes to a hidden file in the same folder (see `open_hidden`), is synced, then renamed over `path`. The
    suffix of `path` determines the compression, also if `path` is a link to another name; with `is_compressed` the
    bytes are compressed already. A device or a named pipe is written to, not replaced.
    """
    hidden, label = None, str(path)
    if str(path) == STANDARD_STREAM:
        require_open(STDOUT)
        descriptor, label = os.dup(sys.stdout.fileno()), "standard output"
    elif str(path) in DESCRIPTORS:
        require_open(DESCRIPTORS[str(path)])
        # Opened by its name, a file would be written from its start.
        descriptor = os.dup(DESCRIPTORS[str(path)])
    elif is_device_or_pipe(path):
        descriptor = os.open(path, os.O_WRONLY | os.O_CLOEXEC)
    else:
        place = output_place(path)
        hidden, descriptor = open_hidden(place)
    # A pipe may have no reader any more when a signal ends the work.
    lost = (KeyboardInterrupt, SystemExit) if hidden is None else BaseException
    with io.BufferedWriter(_OutputFile(descriptor, label), 1 << 20) as raw:
        try:
            compression = None if is_compressed else compression_for(path)
            with _compressing(raw, compression) as stream, _discarded_after(lost, descriptor):
                yield stream
            raw.flush()
            if hidden is not None:
                publish(hidden, descriptor, place, label)
        except BaseException:
            if hidden is not None:
                hidden.unlink(missing_ok=True)
            raise


class _OutputFile(io.FileIO):
    """A file whose errors name it, so that a caller who writes several files knows which disk is full."""

    def __init__(self, descriptor: int, label: str) -> None:
        super().__init__(descriptor, "wb")
        self._label = label
        # Another process that shares the stream may have made it non-blocking.
        os.set_blocking(descriptor, True)

    def write(self, data: ReadableBuffer) -> int:
        with full_disk_as_error(self._label):
            return super().write(data)


@contextmanager
def _discarded_after(errors: type[BaseException] | tuple[type[BaseException], ...], descriptor: int) -> Iterator[None]:
    """Discard buffered output after an error, so that closing neither hides the error nor waits for a reader."""
    try:
        yield
    except errors:
        null = os.open(os.devnull, os.O_WRONLY)
        os.dup2(null, descriptor, inheritable=False)
        os.close(null)
        raise


@contextmanager
def full_disk_as_error(label: str) -> Iterator[None]:
    """Convert the error of a full disk into a FullDiskError; `label` names the file if the error does not."""
    try:
        yield
    except OSError as error:
        if error.errno not in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
            raise
        # For a copy, the second name is the destination.
        name = error.filename2 or error.filename or label
        raise FullDiskError(
            f"{name}: cannot be written ({error.strerror}); free space or write to another disk"
        ) from error


def compression_for(path: str | Path) -> str | None:
    """Return the compression of an output according to its suffix, None for none."""
    # The suffix of the name that the user gave counts, not that of a link's target.
    return _SUFFIXES.get(Path(path).suffix)


@contextmanager
def _compressing(raw: BinaryIO, compression: str | None) -> Iterator[BinaryIO]:
    if compression is None:
        yield raw
    elif compression == "zst":
        # As the program `zstd` does: without a checksum most flipped bits go unnoticed.
        options: dict[int, int] = {zstd.CompressionParameter.checksum_flag: 1}
        with io.BufferedWriter(zstd.ZstdFile(raw, "wb", options=options)) as stream:
            yield stream
    else:
        level = _LEVELS.get(compression)
        with xopen(raw, "wb", threads=0, format=compression, compresslevel=level) as stream:
            yield stream


def compress(lines: Iterable[bytes], compression: str | None) -> bytes:
    """Return compressed lines; concatenated results are a valid compressed file."""
    compressed = io.BytesIO()
    with _compressing(compressed, compression) as stream:
        stream.write(b"".join(lines))
    return compressed.getvalue()


def write_atomically(path: Path, content: bytes) -> None:
    """Write a small file; see `open_output`."""
    with open_output(path) as stream:
        stream.write(content)


def write_lines(path: str | Path, lines: Iterable[bytes]) -> None:
    """Write lines, given without their ends; see `open_output`."""
    with open_output(path) as stream:
        stream.writelines(line + b"\n" for line in lines)


# Checks


def output_place(path: str | Path) -> Path:
    """Return the final path of an output; a link stays a link. A folder or a link loop is an error."""
    place = real_path(path)
    if place.is_symlink():
        raise UserError(f"{path}: is a link that leads to itself; remove it or choose another name")
    if place.is_dir():
        raise UserError(f"{path}: is a folder; give the name of a file")
    return place


def require_writable(*paths: str | Path | None, inputs: Iterable[str | Path | None] = ()) -> None:
    """Check before a long computation that its outputs can be written and replace no input; None is ignored."""
    taken: set[Path | int] = set()
    read = {real_path(path) for path in inputs if path is not None and str(path) != STANDARD_STREAM}
    for path in paths:
        if path is None:
            continue
        descriptor = STDOUT if str(path) == STANDARD_STREAM else DESCRIPTORS.get(str(path))
        place = real_path(path) if descriptor is None else descriptor
        if place in taken:
            name = "standard output" if descriptor == STDOUT else path
            raise UsageError(f"{name}: is given for two outputs; give each a file of its own")
        # Several outputs can share a device such as /dev/null.
        if descriptor is not None or not Path(path).is_char_device():
            taken.add(place)
        if descriptor is not None:
            require_open(descriptor)
        if descriptor is not None or is_device_or_pipe(path):
            continue
        if place in read:
            raise UsageError(f"{path}: is an input, which would be lost; give another output")
        folder = output_place(path).parent
        if not os.access(folder, os.W_OK):
            reason = "may not be written to" if folder.is_dir() else "is no folder"
            raise UserError(f"{path}: cannot be written, for {folder} {reason}; check the path and its rights")


# Hidden files and locks


def open_hidden(path: Path) -> tuple[Path, int]:
    """Open the empty hidden file `.NAME.tmp`, later renamed to `path`, and lock it until its descriptor is closed."""
    hidden = path.with_name(f".{path.name}.tmp")
    try:
        while True:
            descriptor = open_beside(path, hidden)
            try:
                if not _lock(descriptor):
                    raise UserError(f"{path}: another run is writing this file; wait for it or choose another name")
                if _is_named(hidden, descriptor):
                    os.ftruncate(descriptor, 0)
                    return hidden, descriptor
            except BaseException:
                os.close(descriptor)
                raise
            os.close(descriptor)
    except OSError as error:
        raise UserError(f"{path}: cannot be written ({error.strerror}); check the folder and its rights") from error


def _is_named(path: Path, descriptor: int) -> bool:
    """Return whether an open file still has its name; another run may have renamed or removed it."""
    try:
        return os.path.samestat(path.stat(), os.fstat(descriptor))
    except FileNotFoundError:
        return False


def open_beside(path: Path, hidden: Path) -> int:
    """Open or create a hidden file for the content of `path`; the same users can read it if `path` exists."""
    descriptor = os.open(hidden, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o666)
    if path.exists():
        os.fchmod(descriptor, path.stat().st_mode & 0o777 | 0o600)
    return descriptor


def publish(hidden: Path, descriptor: int, path: Path, label: str) -> None:
    """Sync a complete hidden file and rename it to `path`, with the permissions of the file that it replaces."""
    # Some file systems report a full disk only now.
    with full_disk_as_error(label):
        os.fsync(descriptor)
    if path.exists():
        os.fchmod(descriptor, path.stat().st_mode & 0o777)
    hidden.replace(path)


def lock_file(path: Path, message: str) -> BinaryIO:
    """Lock a file until it is closed; create it if needed. The error has `message` if another run holds the lock."""
    try:
        with ExitStack() as stack:
            file = stack.enter_context(path.open("ab", buffering=0))
            if _lock(file):
                stack.pop_all()
                return file
    except OSError as error:
        raise UserError(f"{path}: cannot be locked ({error.strerror}); check its folder, or remove it") from error
    raise UserError(message)


def _lock(file: IO[bytes] | int) -> bool:
    """Lock an open file, or its descriptor, until it is closed; return whether the lock was free."""
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
