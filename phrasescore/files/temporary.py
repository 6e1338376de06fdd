"""Hidden files and locks in folders where other users may write, too.

A hidden file is new and has an unpredictable name. Links are not followed, and files of other users are neither opened
nor trusted.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import random
import re
import secrets
import stat
import time
from contextlib import ExitStack
from pathlib import Path
from typing import IO, BinaryIO

from phrasescore.errors import UserError

_ENDING = re.compile(r"\.[0-9a-f]{16}\.tmp")
_NEW = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_ATTEMPTS = 6
_LONGEST_PAUSE = 0.05
"""Seconds between two attempts."""


def make_temporary(path: Path) -> tuple[Path, int]:
    """Create an empty hidden file that is later renamed to `path`; return its name and descriptor.

    It is called `.NAME.RANDOM.tmp`, has the permissions of the file at `path` if there is one, and is locked until the
    descriptor is closed. Hidden files that killed runs of this user have left are removed.

    Raises:
        UserError: the folder cannot be written, or another run is writing `path`.
    """
    try:
        hidden = hidden_name(path)
        mode = path.stat().st_mode & 0o777 if path.exists() else None
        for _ in range(_ATTEMPTS):
            temporary = path.with_name(hidden + _ending())
            descriptor = os.open(temporary, _NEW, 0o666 if mode is None else 0o600)
            try:
                if mode is not None:
                    os.fchmod(descriptor, mode)
                if _is_alone(temporary, descriptor, hidden):
                    return temporary, descriptor
            except BaseException:
                _discard(temporary, descriptor)
                raise
            _discard(temporary, descriptor)
            # Two runs that start at the same moment may each have found the other.
            time.sleep(random.uniform(0, _LONGEST_PAUSE))
    except OSError as error:
        raise UserError(f"{path}: cannot be written ({error.strerror}); check the folder and its rights") from error
    raise UserError(f"{path}: another run is writing this file; wait for it or choose another name")


def _discard(temporary: Path, descriptor: int) -> None:
    temporary.unlink(missing_ok=True)
    os.close(descriptor)


def hidden_name(path: Path) -> str:
    """Return the common beginning of names of hidden files for `path`; it leaves 21 bytes for the rest of a name."""
    longest = os.pathconf(path.parent, "PC_NAME_MAX") - len(_ending())
    name = f".{path.name}"
    return name if len(os.fsencode(name)) <= longest else f".{hashlib.sha256(os.fsencode(name)).hexdigest()}"


def _ending() -> str:
    return f".{secrets.token_hex(8)}.tmp"


def _is_alone(temporary: Path, descriptor: int, hidden: str) -> bool:
    """Lock a new hidden file and remove leftovers of killed runs; return whether no other run is active."""
    # Before the lock was taken, another run may have removed the file as a leftover.
    if not try_to_lock(descriptor) or not temporary.exists():
        return False
    owner, files = os.fstat(descriptor).st_uid, temporary.parent.iterdir()
    others = [file for file in files if file.name.startswith(hidden) and _ENDING.fullmatch(file.name, len(hidden))]
    return all(_remove_leftover(file, owner) for file in others if file != temporary)


def _remove_leftover(path: Path, owner: int) -> bool:
    """Remove a hidden file that a killed run has left; return whether no run is using it.

    Files of other users are ignored, and so are additional hard links to a file of this user.
    """
    try:
        status = path.lstat()
        if not stat.S_ISREG(status.st_mode) or status.st_uid != owner or status.st_nlink > 1:
            return True
        # Some network file systems lock only files that are open for writing.
        access = os.O_RDWR if status.st_mode & stat.S_IWUSR else os.O_RDONLY
        descriptor = os.open(path, access | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return True
    is_free = try_to_lock(descriptor)
    if is_free:
        path.unlink(missing_ok=True)
    os.close(descriptor)
    return is_free


def lock_file(path: Path, refusal: str) -> BinaryIO:
    """Lock a file until it is closed; create it if it does not exist. Its content is not changed.

    Raises:
        UserError: with the message `refusal` if another run holds the lock; or the file cannot be opened, is a link, or
            its file system does not support locks.
    """
    flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    try:
        with ExitStack() as stack:
            file = stack.enter_context(os.fdopen(os.open(path, flags, 0o666), "rb+", buffering=0))
            if try_to_lock(file):
                stack.pop_all()
                return file
    except OSError as error:
        raise UserError(f"{path}: cannot be locked ({error.strerror}); check its folder, or remove it") from error
    raise UserError(refusal)


def try_to_lock(file: IO[bytes] | int) -> bool:
    """Lock an open file, or its descriptor, until it is closed; return whether the lock was free."""
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
