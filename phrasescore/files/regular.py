"""Regular files as they lie there, whatever they hold: neither waited for nor decompressed."""

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
    """Return what to say of a file that cannot be read."""
    remedy = "check the path and its rights"
    if error.errno == errno.ENOENT and (compressed := compressed_form(name)):
        remedy = f"give {compressed}, which is there"
    return UserError(f"{name}: cannot be read ({error.strerror}); {remedy}")


def compressed_form(name: str | Path) -> str | None:
    """Return the name of the file with `.gz` behind it, which a user may mean, if that is there."""
    compressed = f"{name}.gz"
    return compressed if os.path.exists(compressed) else None  # noqa: PTH110


def open_regular(path: Path) -> BufferedReader:
    """Open a regular file, or a link to one, as the bytes that lie there; nothing else is waited for or read.

    Raises:
        UserError: it cannot be read, or is a pipe, a device or a folder.
    """
    try:
        # Opening a pipe would wait for a writer, and a device may do anything.
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC)
    except OSError as error:
        raise unreadable(str(path), error) from error
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise UserError(f"{path}: is a pipe, a device or a folder; give a file")
    return os.fdopen(descriptor, "rb")


def read_regular(path: Path, largest: int) -> bytes:
    """Return the content of a regular file as it lies there, at most so many bytes; see `open_regular`.

    Raises:
        UserError: it cannot be read, is no regular file, or is larger.
    """
    with open_regular(path) as file:
        # A file may have holes that no disk could hold, and grow while it is read.
        if os.fstat(file.fileno()).st_size > largest or len(content := file.read(largest + 1)) > largest:
            raise UserError(f"{path}: is larger than {largest:,} bytes; check that it is the file meant")
    return content


def sha256_of(path: Path) -> str:
    """Return the SHA-256 of a regular file as it lies there, in hexadecimal digits; see `open_regular`.

    Raises:
        UserError: it cannot be read, or is no regular file.
    """
    with open_regular(path) as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def sha256_of_input(path: str | Path) -> str | None:
    """Return the SHA-256 of an input as it lies there, None of what can be read once only: standard input, a pipe.

    Raises:
        UserError: it cannot be read.
    """
    if can_be_read_only_once(path):
        return None
    return sha256_of(Path(path))
