"""What the reports of commands say of the files and the programs that their numbers rest on."""

from __future__ import annotations

import platform
from importlib.metadata import version
from pathlib import Path

from phrasescore import __version__
from phrasescore.files import sha256_of
from phrasescore.model_folder import WEIGHTS, network_file


def described(path: Path) -> dict[str, str | None]:
    """Return path and SHA-256 of a file, of a model folder that of its weights.

    The hash is None where there is no file: some of Moses' features name what several files begin with, and standard
    input can be read once only.
    """
    file = network_file(path, WEIGHTS) if path.is_dir() else path
    return {"path": str(path), "sha256": sha256_of(file) if file.is_file() else None}


def versions() -> dict[str, str]:
    """Return the versions of what computes."""
    numeric = {name: version(name) for name in ("numpy", "torch")}
    return {"phrasescore": __version__, "python": platform.python_version(), **numeric}
