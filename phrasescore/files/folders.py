"""Folders that the user names."""

from __future__ import annotations

from pathlib import Path

from phrasescore.errors import UserError


def require_folder(path: Path) -> None:
    """Check that a path is a folder or does not exist.

    Raises:
        UserError: it is a file.
    """
    if path.exists() and not path.is_dir():
        raise UserError(f"{path}: is a file; give the name of a folder")


def make_folder(path: Path) -> None:
    """Create a folder and its parents if they do not exist.

    Raises:
        UserError: the path is a file, or the folder cannot be created.
    """
    require_folder(path)
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UserError(f"{path}: cannot be made ({error.strerror}); check the folder and its rights") from error
