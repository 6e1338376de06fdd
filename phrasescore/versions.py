"""The versions of software that numbers depend on."""

from __future__ import annotations

import hashlib
import platform
from contextlib import suppress
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from phrasescore import __version__

_LIBRARIES = ("torch", "numpy", "scipy", "sacrebleu", "sacremoses", "sil-thot", "ufal.kenlm", "scikit-learn")
"""Libraries that numbers depend on."""
_WITH_IT = ("moses_integration",)
"""Packages that are installed with phrasescore."""


@cache
def code_version(*others: str) -> str:
    """Return the version of phrasescore with a hash of its code, which differs between commits of one version.

    Args:
        others: additional packages whose code the hash covers.
    """
    root = Path(__file__).parents[1]
    files = [path for name in ("phrasescore", *_WITH_IT, *others) for path in sorted((root / name).rglob("*.py"))]
    content = b"".join(path.read_bytes() for path in files)
    return f"{__version__} (code {hashlib.sha256(content).hexdigest()[:12]})"


def versions() -> dict[str, str]:
    """Return the versions of phrasescore, Python, and the installed libraries."""
    found = {"phrasescore": code_version(), "python": platform.python_version()}
    for library in _LIBRARIES:
        with suppress(PackageNotFoundError):
            found[library] = version(library)
    return found
