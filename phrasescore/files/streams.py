"""Standard streams, which `-` names among paths, and what else bytes pass through."""

from __future__ import annotations

import fcntl
import os
import sys
from pathlib import Path
from typing import TextIO

from phrasescore.errors import UsageError, UserError

STANDARD_STREAM = "-"
STDIN, STDOUT, STDERR = range(3)
"""Their descriptors."""
# Whoever opens it by the name /dev/stdout cannot write to it either.
_UNWRITABLE = "/dev/full" if Path("/dev/full").exists() else os.devnull


def complete_standard_streams() -> None:
    """Open standard streams that are closed, so that no file gets their numbers, nor what is said for another one.

    Reading from the input and writing to the output fail then (see `require_open`); what is said of errors is lost.
    """
    _occupy(STDIN, os.devnull, os.O_WRONLY)
    _occupy(STDOUT, _UNWRITABLE, os.O_RDONLY)
    _occupy(STDERR, os.devnull, os.O_WRONLY)
    # Python has None for those that were closed when it began.
    sys.stdin = sys.stdin or _text(STDIN, "r")
    sys.stdout = sys.stdout or _text(STDOUT, "w")
    sys.stderr = sys.stderr or _text(STDERR, "w")


def _occupy(descriptor: int, path: str, flags: int) -> None:
    """Open a file under a number, if that is free."""
    try:
        os.fstat(descriptor)
    except OSError:
        opened = os.open(path, flags)
        os.dup2(opened, descriptor)
        if opened != descriptor:
            os.close(opened)
        # Programs that are started would meet the same trouble.
        os.set_inheritable(descriptor, True)


def _text(descriptor: int, mode: str) -> TextIO:
    return open(descriptor, mode, errors="backslashreplace", closefd=False)  # type: ignore[return-value]


def require_open(descriptor: int) -> None:
    """Check that standard input (0) or output (1) was not closed from the start.

    Raises:
        UserError: it was.
    """
    access = fcntl.fcntl(descriptor, fcntl.F_GETFL) & os.O_ACCMODE
    if descriptor == STDIN and access == os.O_WRONLY:
        raise UserError("standard input: is closed; give a file, or leave it open")
    if descriptor == STDOUT and access == os.O_RDONLY:
        raise UserError("standard output: is closed; write to a file, or leave it open")


def display_name(path: str | Path) -> str:
    """What to call a path in a message."""
    return "standard input" if str(path) == STANDARD_STREAM else str(path)


def real_path(path: str | Path) -> Path:
    """Return an absolute path without links; one that leads to itself stays, where `Path.resolve` may fail."""
    return Path(os.path.realpath(path))


def is_device_or_pipe(path: str | Path) -> bool:
    """Whether a path leads to what bytes pass through, as `/dev/null` or the `/dev/fd/63` of a shell's `>(...)`.

    It is asked of the path as it was given: what that of a pipe without a name resolves to does not exist.
    """
    return Path(path).exists() and not Path(path).is_file() and not Path(path).is_dir()


def can_be_read_only_once(path: str | Path) -> bool:
    """Whether an input cannot be read a second time: standard input, a pipe, a device."""
    return str(path) == STANDARD_STREAM or is_device_or_pipe(path)


def require_one_standard_input(*paths: str | Path | None) -> None:
    """Check that standard input is one input at most; a path that is None is passed over.

    Raises:
        UsageError: it is given for several.
    """
    if [str(path) for path in paths].count(STANDARD_STREAM) > 1:
        raise UsageError(f"{STANDARD_STREAM}: standard input can be one input only; give files for the others")
