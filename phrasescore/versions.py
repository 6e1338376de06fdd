"""The versions of the programs that numbers depend on."""

from __future__ import annotations

import platform
from contextlib import suppress
from importlib.metadata import PackageNotFoundError, version

from phrasescore import __version__

_LIBRARIES = ("torch", "numpy", "scipy", "sacrebleu", "sacremoses", "sil-thot", "ufal.kenlm", "scikit-learn")
"""Those that numbers depend on."""


def versions() -> dict[str, str]:
    """Return the versions of phrasescore, Python, and the libraries that are installed."""
    found = {"phrasescore": __version__, "python": platform.python_version()}
    for library in _LIBRARIES:
        with suppress(PackageNotFoundError):
            found[library] = version(library)
    return found
