"""Outputs that appear whole or not at all, compressed by the suffix of their name."""

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
# igzip level 1 writes a phrase table at several hundred MB a second; the other formats keep their defaults.
_LEVELS = {"gz": 1}
_POLL_MILLISECONDS = 100


class _OutputFile(io.FileIO):
    """A file that names itself when its disk is full: who writes several at once cannot tell which one it was.

    It can be abandoned, even while a thread waits for the reader of a pipe: what is written then comes to nothing. A
    reader is waited for, too, where whoever shares the descriptor has told it not to wait.
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
        # A pipe with any room takes so many bytes at once.
        some = memoryview(data)[: select.PIPE_BUF] if self._is_pipe else data
        with full_disk_told(self._label):
            while not self.is_abandoned:
                if self._room.poll(_POLL_MILLISECONDS) and (written := super().write(some)) is not None:
                    return written
        return memoryview(data).nbytes


@contextmanager
def full_disk_told(label: str) -> Iterator[None]:
    """Turn the error of a full disk into a sentence; `label` is what could not be written, if the error does not say.

    Raises:
        FullDiskError: the disk is full.
    """
    try:
        yield
    except OSError as error:
        if error.errno not in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
            raise
        # Where a file is copied, the second name is that of the copy.
        name = error.filename2 or error.filename or label
        raise FullDiskError(
            f"{name}: cannot be written ({error.strerror}); free space or write to another disk"
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
def _compressing(raw: BinaryIO, compression: str | None) -> Iterator[BinaryIO]:
    """Open what compresses into a file in some format, or for None the file itself."""
    if compression is None:
        yield raw
    elif compression == "zst":
        # As the program `zstd` does: without a checksum most flipped bits are read as other content.
        options: dict[int, int] = {zstd.CompressionParameter.checksum_flag: 1}
        with io.BufferedWriter(zstd.ZstdFile(raw, "wb", options=options)) as stream:
            yield stream
    else:
        level = _LEVELS.get(compression)
        with xopen(raw, "wb", threads=0, format=compression, compresslevel=level) as stream:
            yield stream


def compression_for(path: str | Path) -> str | None:
    """Return the compression that the name of an output asks for, None for plain data."""
    # What the user calls the file, not what a link of that name leads to.
    return None if str(path) == STANDARD_STREAM else _SUFFIXES.get(Path(path).suffix)


def compress(lines: Iterable[bytes], compression: str | None) -> bytes:
    """Return lines in some format: one after another, such pieces are a file in it."""
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
    reader sees the old file or the new one and never a part. The compression follows the suffix of `path`, also
    where that is a link to another name; with `is_compressed` the bytes are compressed already.
    Two runs cannot write at once. A device or a named pipe is written to, not replaced. `-` is standard output, plain.

    Raises:
        UserError: the folder cannot be written, another run is writing the same file, standard output
            is closed, or the disk is full.
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
            # Some disks tell only now that they are full.
            with full_disk_told(str(path)):
                os.fsync(raw.fileno())
            temporary.replace(path)
        except BaseException:
            temporary.unlink(missing_ok=True)
            # The disk may be full for another file's sake.
            _abandon(raw)
            raise


def output_place(path: str | Path) -> Path:
    """Return where a file is to stand; a link stays a link.

    Raises:
        UserError: it is a folder, or a link that leads nowhere.
    """
    place = real_path(path)
    if place.is_symlink():
        raise UserError(f"{path}: is a link that leads to itself; remove it or choose another name")
    if place.is_dir():
        raise UserError(f"{path}: is a folder; give the name of a file")
    return place


def require_writable(*paths: str | Path | None, inputs: Iterable[str | Path | None] = ()) -> None:
    """Check before long work that its results can be written, and take no input's place.

    Args:
        paths: of the results; one that is None is passed over.
        inputs: what is read; None and standard input are passed over.

    Raises:
        UsageError: a result would take the place of an input or of another result.
        UserError: one cannot be written.
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
        # A device takes any number, as /dev/null.
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
