"""Standard streams, written `-` as paths, and devices and pipes."""

from __future__ import annotations

import fcntl
import os
import sys
from pathlib import Path
from typing import TextIO

from phrasescore.errors import UsageError, UserError

STANDARD_STREAM = "-"
STDIN, STDOUT, STDERR = range(3)
"""File descriptors."""
# Opening it by the name /dev/stdout and writing fails as well.
_UNWRITABLE = "/dev/full" if Path("/dev/full").exists() else os.devnull


def complete_standard_streams() -> None:
    """Reopen closed standard streams, so that no other file gets their descriptors and receives their output.

    Reading from the input and writing to the output then fail (see `require_open`); error messages are lost.
    """
    _occupy(STDIN, os.devnull, os.O_WRONLY)
    _occupy(STDOUT, _UNWRITABLE, os.O_RDONLY)
    _occupy(STDERR, os.devnull, os.O_WRONLY)
    # Python sets streams to None that were closed when it started.
    sys.stdin = sys.stdin or _text(STDIN, "r")
    sys.stdout = sys.stdout or _text(STDOUT, "w")
    sys.stderr = sys.stderr or _text(STDERR, "w")


def _occupy(descriptor: int, path: str, flags: int) -> None:
    """Open a file at a given descriptor, if the descriptor is free."""
    try:
        os.fstat(descriptor)
    except OSError:
        opened = os.open(path, flags)
        os.dup2(opened, descriptor)
        if opened != descriptor:
            os.close(opened)
        # Child processes would otherwise have the same problem.
        os.set_inheritable(descriptor, True)


def _text(descriptor: int, mode: str) -> TextIO:
    return open(descriptor, mode, errors="backslashreplace", closefd=False)  # type: ignore[return-value]


def require_open(descriptor: int) -> None:
    """Check that standard input (0) or output (1) was open at the start.

    Raises:
        UserError: it was closed.
    """
    access = fcntl.fcntl(descriptor, fcntl.F_GETFL) & os.O_ACCMODE
    if descriptor == STDIN and access == os.O_WRONLY:
        raise UserError("standard input: is closed; give a file, or leave it open")
    if descriptor == STDOUT and access == os.O_RDONLY:
        raise UserError("standard output: is closed; write to a file, or leave it open")


def display_name(path: str | Path) -> str:
    """Return the name of a path in messages."""
    return "standard input" if str(path) == STANDARD_STREAM else str(path)


def real_path(path: str | Path) -> Path:
    """Return an absolute path without links; a link loop is kept, on which `Path.resolve` may fail."""
    return Path(os.path.realpath(path))


def is_device_or_pipe(path: str | Path) -> bool:
    """Return whether a path is a device or pipe, such as `/dev/null` or the `/dev/fd/63` of the shell's `>(...)`.

    Pass the path as the user gave it: an anonymous pipe resolves to a path that does not exist.
    """
    return Path(path).exists() and not Path(path).is_file() and not Path(path).is_dir()


def can_be_read_only_once(path: str | Path) -> bool:
    """Return whether an input cannot be read twice: standard input, a pipe, a device."""
    return str(path) == STANDARD_STREAM or is_device_or_pipe(path)


def require_one_standard_input(*paths: str | Path | None) -> None:
    """Check that at most one input is standard input; None is ignored.

    Raises:
        UsageError: several inputs are standard input.
    """
    if [str(path) for path in paths].count(STANDARD_STREAM) > 1:
        raise UsageError(f"{STANDARD_STREAM}: standard input can be one input only; give files for the others")
