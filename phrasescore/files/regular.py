"""Regular files as raw bytes: without blocking on pipes, and without decompression."""

from __future__ import annotations

import errno
import hashlib
import os
import stat
from io import BufferedReader
from pathlib import Path

from phrasescore.errors import UserError
from phrasescore.files.streams import can_be_read_only_once


def unreadable(name: str, error: OSError) -> UserError:
    """Return the error about a file that cannot be read."""
    remedy = "check the path and its rights"
    if error.errno == errno.ENOENT and (compressed := compressed_form(name)):
        remedy = f"give {compressed}, which is there"
    return UserError(f"{name}: cannot be read ({error.strerror}); {remedy}")


def compressed_form(name: str | Path) -> str | None:
    """Return the name with the suffix `.gz` if that file exists, else None."""
    compressed = f"{name}.gz"
    return compressed if os.path.exists(compressed) else None  # noqa: PTH110


def open_regular(path: Path) -> BufferedReader:
    """Open a regular file, or a link to one, as raw bytes; do not block on a pipe or read from a device.

    Raises:
        UserError: it cannot be read, or is a pipe, a device or a folder.
    """
    try:
        # O_NONBLOCK: do not wait for the writer of a pipe. O_NOCTTY: do not make a terminal the controlling terminal.
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC)
    except OSError as error:
        raise unreadable(str(path), error) from error
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise UserError(f"{path}: is a pipe, a device or a folder; give a file")
    return os.fdopen(descriptor, "rb")


def read_regular(path: Path, largest: int) -> bytes:
    """Return the raw content of a regular file of at most `largest` bytes; see `open_regular`.

    Raises:
        UserError: it cannot be read, is not a regular file, or is larger.
    """
    with open_regular(path) as file:
        # A sparse file may be larger than any disk, and a file may grow while it is read.
        if os.fstat(file.fileno()).st_size > largest or len(content := file.read(largest + 1)) > largest:
            raise UserError(f"{path}: is larger than {largest:,} bytes; check that it is the file meant")
    return content


def sha256_of(path: Path) -> str:
    """Return the SHA-256 of the raw bytes of a regular file in hexadecimal digits; see `open_regular`.

    Raises:
        UserError: it cannot be read, or is not a regular file.
    """
    with open_regular(path) as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def sha256_of_input(path: str | Path) -> str | None:
    """Return the SHA-256 of the raw bytes of an input; None for standard input and pipes, which are read only once.

    Raises:
        UserError: it cannot be read.
    """
    if can_be_read_only_once(path):
        return None
    return sha256_of(Path(path))
