"""Files, software and machine that numbers depend on, for reports."""

from __future__ import annotations

import platform
from pathlib import Path
from typing import Any

from phrasescore.files import STANDARD_STREAM, sha256_of
from phrasescore.model_files import WEIGHTS
from phrasescore.versions import versions
from phrasescore.workers import available_cores


def machine() -> dict[str, Any]:
    """Return processor, number of available cores, system, and versions."""
    return {"cpu": _cpu(), "cores": available_cores(), "system": platform.platform(), "versions": versions()}


def described(path: str | Path) -> dict[str, str | None]:
    """Return path and SHA-256 of a file; for a model folder the SHA-256 is that of its weights.

    The hash is None if there is no single file that can be read twice: some Moses features name a prefix of several
    files, and standard input can be read only once.
    """
    file = Path(path) / WEIGHTS if Path(path).is_dir() else Path(path)
    is_file = file.is_file() and str(path) != STANDARD_STREAM
    return {"path": str(path), "sha256": sha256_of(file) if is_file else None}


def _cpu() -> str:
    facts = Path("/proc/cpuinfo").read_text().splitlines() if Path("/proc/cpuinfo").exists() else []
    names = [line.partition(":")[2].strip() for line in facts if line.startswith("model name")]
    return names[0] if names else platform.machine()
