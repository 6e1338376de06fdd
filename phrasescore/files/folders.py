"""Folders that a user names."""

from __future__ import annotations

from pathlib import Path

from phrasescore.errors import UserError


def require_folder(path: Path) -> None:
    """Check that what lies at a path, if anything does, is a folder.

    Raises:
        UserError: it is a file.
    """
    if path.exists() and not path.is_dir():
        raise UserError(f"{path}: is a file; give the name of a folder")


def make_folder(path: Path) -> None:
    """Make a folder, and those that it lies in, where they are not there.

    Raises:
        UserError: a file lies there, or it cannot be made.
    """
    require_folder(path)
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UserError(f"{path}: cannot be made ({error.strerror}); check the folder and its rights") from error
