"""Outputs that are written atomically, compressed according to the suffix of their name."""

from __future__ import annotations

import errno
import io
import json
import math
import os
import select
import stat
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

from xopen import xopen

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

from phrasescore.errors import FullDiskError, UsageError, UserError
from phrasescore.files.streams import STANDARD_STREAM, STDOUT, is_device_or_pipe, real_path, require_open
from phrasescore.files.temporary import make_temporary

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer

_SUFFIXES = {".gz": "gz", ".zst": "zst", ".xz": "xz", ".bz2": "bz2"}
# igzip level 1 writes a phrase table at several hundred MB/s; the other formats use their defaults.
_LEVELS = {"gz": 1}
_POLL_MILLISECONDS = 100


class _OutputFile(io.FileIO):
    """A file whose errors name it, so that a caller who writes several files knows which disk is full.

    It can be abandoned even while a thread waits for the reader of a pipe; later writes are discarded. A write blocks
    even if the descriptor is non-blocking, which another process that shares it may have requested.
    """

    def __init__(self, descriptor: int, label: str) -> None:
        super().__init__(descriptor, "wb")
        self._label = label
        self._is_pipe = stat.S_ISFIFO(os.fstat(descriptor).st_mode)
        self._room = select.poll()
        self._room.register(descriptor, select.POLLOUT)
        self.is_abandoned = False

    def write(self, data: ReadableBuffer) -> int:
        """Write some bytes; return their number.

        Raises:
            UserError: the disk is full.
        """
        # A writable pipe accepts at least this many bytes without blocking.
        some = memoryview(data)[: select.PIPE_BUF] if self._is_pipe else data
        with full_disk_told(self._label):
            while not self.is_abandoned:
                if self._room.poll(_POLL_MILLISECONDS) and (written := super().write(some)) is not None:
                    return written
        return memoryview(data).nbytes


@contextmanager
def full_disk_told(label: str) -> Iterator[None]:
    """Convert the error of a full disk into a message; `label` names the file if the error does not.

    Raises:
        FullDiskError: the disk is full.
    """
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


def _buffered(descriptor: int, label: str) -> io.BufferedWriter:
    return io.BufferedWriter(_OutputFile(descriptor, label), 1 << 20)


def _abandon(buffered: io.BufferedWriter) -> None:
    """Discard the buffer, so that closing neither fails nor blocks."""
    assert isinstance(buffered.raw, _OutputFile)
    buffered.raw.is_abandoned = True


@contextmanager
def _abandoned_on_signals(buffered: io.BufferedWriter) -> Iterator[None]:
    """Discard further output when a signal ends the work, because a pipe may have no reader."""
    try:
        yield
    except (KeyboardInterrupt, SystemExit):
        _abandon(buffered)
        raise


@contextmanager
def _compressing(raw: BinaryIO, compression: str | None) -> Iterator[BinaryIO]:
    """Open a compressor that writes to a file; None yields the file itself."""
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


def compression_for(path: str | Path) -> str | None:
    """Return the compression of an output according to its suffix, None for none."""
    # The suffix of the name that the user gave counts, not that of a link's target.
    return None if str(path) == STANDARD_STREAM else _SUFFIXES.get(Path(path).suffix)


def compress(lines: Iterable[bytes], compression: str | None) -> bytes:
    """Return compressed lines; concatenated results are a valid compressed file."""
    if compression is None:
        return b"".join(lines)
    piece = io.BytesIO()
    with _compressing(piece, compression) as stream:
        stream.write(b"".join(lines))
    return piece.getvalue()


@contextmanager
def open_output(path: str | Path, *, is_compressed: bool = False) -> Iterator[BinaryIO]:
    """Open a file that appears under its name only when it is complete.

    The data goes to a hidden file in the same folder (see `make_temporary`), is synced, then renamed over `path`, so a
    reader sees the old file or the new one and never an incomplete file. The suffix of `path` determines the
    compression, also if `path` is a link to another name; with `is_compressed` the bytes are compressed already. Two
    runs cannot write the same file at once. A device or a named pipe is written to, not replaced. `-` is standard
    output, uncompressed.

    Raises:
        UserError: the folder cannot be written, another run is writing the same file, standard output is closed, or the
            disk is full.
    """
    if str(path) == STANDARD_STREAM:
        require_open(STDOUT)
        with _buffered(os.dup(sys.stdout.fileno()), "standard output") as stdout, _abandoned_on_signals(stdout):
            yield stdout
        return
    compression = None if is_compressed else compression_for(path)
    if is_device_or_pipe(path):
        with (
            _buffered(os.open(path, os.O_WRONLY | os.O_CLOEXEC), str(path)) as special,
            _compressing(special, compression) as stream,
            _abandoned_on_signals(special),
        ):
            yield stream
        return
    path = output_place(path)
    temporary, descriptor = make_temporary(path)
    with _buffered(descriptor, str(path)) as raw:
        try:
            with _compressing(raw, compression) as stream:
                yield stream
            raw.flush()
            # Some file systems report a full disk only now.
            with full_disk_told(str(path)):
                os.fsync(raw.fileno())
            temporary.replace(path)
        except BaseException:
            temporary.unlink(missing_ok=True)
            # The full disk may be that of another file.
            _abandon(raw)
            raise


def output_place(path: str | Path) -> Path:
    """Return the final path of an output; a link stays a link.

    Raises:
        UserError: it is a folder, or a broken link.
    """
    place = real_path(path)
    if place.is_symlink():
        raise UserError(f"{path}: is a link that leads to itself; remove it or choose another name")
    if place.is_dir():
        raise UserError(f"{path}: is a folder; give the name of a file")
    return place


def require_writable(*paths: str | Path | None, inputs: Iterable[str | Path | None] = ()) -> None:
    """Check before a long computation that its outputs can be written and do not replace an input.

    Args:
        paths: the outputs; None is ignored.
        inputs: the inputs; None and standard input are ignored.

    Raises:
        UsageError: an output would replace an input or another output.
        UserError: an output cannot be written.
    """
    taken, read = set(), {real_path(path) for path in inputs if path is not None and str(path) != STANDARD_STREAM}
    for path in paths:
        if path is None:
            continue
        is_stdout = str(path) == STANDARD_STREAM
        place = None if is_stdout else real_path(path)
        if place in taken:
            name = "standard output" if is_stdout else path
            raise UsageError(f"{name}: is given for two outputs; give each a file of its own")
        # Several outputs can share a device such as /dev/null.
        if is_stdout or not Path(path).is_char_device():
            taken.add(place)
        if is_stdout:
            require_open(STDOUT)
        if is_stdout or is_device_or_pipe(path):
            continue
        if place in read:
            raise UsageError(f"{path}: is an input, which would be lost; give another output")
        folder = output_place(path).parent
        if not os.access(folder, os.W_OK):
            reason = "may not be written to" if folder.is_dir() else "is no folder"
            raise UserError(f"{path}: cannot be written, for {folder} {reason}; check the path and its rights")


def write_atomically(path: Path, content: bytes) -> None:
    """Write a small file atomically."""
    with open_output(path) as stream:
        stream.write(content)


def finite(value: Any) -> Any:
    """Replace infinity and NaN, which JSON does not have, by None."""
    if isinstance(value, dict):
        return {key: finite(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [finite(item) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def to_json(value: Any) -> bytes:
    """Return indented JSON for human readers, with keys in the given order; see `finite`."""
    text = json.dumps(finite(value), indent=2, ensure_ascii=False, default=str) + "\n"
    # A file name that is not UTF-8 has lone surrogates, which become JSON escapes.
    return text.encode(errors="backslashreplace")


def write_json(path: Path, value: Any) -> None:
    """Write indented JSON atomically."""
    write_atomically(path, to_json(value))


def write_lines(path: str | Path, lines: Iterable[bytes]) -> None:
    """Write lines, given without their ends, atomically; see `open_output`."""
    with open_output(path) as stream:
        stream.writelines(line + b"\n" for line in lines)
