"""Hidden files and locks in folders where others may write, too.

A hidden file has a name that nobody can guess, is new, and is never one that stands there already. Links are not
followed, and what belongs to another user is neither opened nor believed.
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
    """Make an empty file in the folder of `path` that is to be renamed to it; return its name and its descriptor.

    It is called `.NAME.RANDOM.tmp`, has the permissions of the file at `path` if there is one, and is locked until the
    descriptor is closed. Such files of ours that runs have left when they were killed are removed.

    Raises:
        UserError: the folder cannot be written, or another run has such a file: it is writing `path`.
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
            # Of two runs that start at the same moment each may have found the other.
            time.sleep(random.uniform(0, _LONGEST_PAUSE))
    except OSError as error:
        raise UserError(f"{path}: cannot be written ({error.strerror}); check the folder and its rights") from error
    raise UserError(f"{path}: another run is writing this file; wait for it or choose another name")


def _discard(temporary: Path, descriptor: int) -> None:
    temporary.unlink(missing_ok=True)
    os.close(descriptor)


def hidden_name(path: Path) -> str:
    """Return how the names of hidden files for `path` begin; there is room for 21 more bytes."""
    longest = os.pathconf(path.parent, "PC_NAME_MAX") - len(_ending())
    name = f".{path.name}"
    return name if len(os.fsencode(name)) <= longest else f".{hashlib.sha256(os.fsencode(name)).hexdigest()}"


def _ending() -> str:
    return f".{secrets.token_hex(8)}.tmp"


def _is_alone(temporary: Path, descriptor: int, hidden: str) -> bool:
    """Lock a new hidden file and remove what killed runs have left; return whether no other run is at work."""
    # Before it was locked another run may have taken it for such a leftover.
    if not try_to_lock(descriptor) or not temporary.exists():
        return False
    owner, files = os.fstat(descriptor).st_uid, temporary.parent.iterdir()
    others = [file for file in files if file.name.startswith(hidden) and _ENDING.fullmatch(file.name, len(hidden))]
    return all(_remove_leftover(file, owner) for file in others if file != temporary)


def _remove_leftover(path: Path, owner: int) -> bool:
    """Remove a hidden file that a killed run has left; return whether no run is at work on it.

    What another user may have put there is passed over, also if it is a second name of a file of ours.
    """
    try:
        status = path.lstat()
        if not stat.S_ISREG(status.st_mode) or status.st_uid != owner or status.st_nlink > 1:
            return True
        # Some network file systems lock only what may be written.
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
    """Lock a file, made if it is not there, until it is closed; nothing in it is touched.

    Raises:
        UserError: `refusal`, if another run holds it; or it cannot be opened, is a link, or its disk knows no locks.
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
    """Lock an open file, or its descriptor, until it is closed; return whether nobody else holds it."""
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
