"""Names of inputs and outputs: paths, and `-` for standard input or output."""

from __future__ import annotations

from pathlib import Path

from phrasescore.errors import UsageError

STANDARD_STREAM = "-"


def display_name(path: str | Path) -> str:
    """What to call a path in a message."""
    return "standard input" if str(path) == STANDARD_STREAM else str(path)


def is_device_or_pipe(path: str | Path) -> bool:
    """Whether a path leads to what bytes pass through, as `/dev/null` or the `/dev/fd/63` of a shell's `>(...)`.

    It is asked of the path as it was given: what that of a pipe without a name resolves to does not exist.
    """
    return Path(path).exists() and not Path(path).is_file() and not Path(path).is_dir()


def require_one_standard_input(*paths: str | Path | None) -> None:
    """Check that standard input is one input at most; a path that is None is passed over.

    Raises:
        UsageError: it is given for several.
    """
    if [str(path) for path in paths].count(STANDARD_STREAM) > 1:
        raise UsageError(f"{STANDARD_STREAM}: standard input can be one input only; give files for the others")
