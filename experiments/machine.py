"""The machine that numbers come from."""

from __future__ import annotations

import platform
from pathlib import Path
from typing import Any

from phrasescore.model_files import versions
from phrasescore.workers import available_cores


def machine() -> dict[str, Any]:
    """Return processor, number of available cores, system, and versions."""
    return {"cpu": _cpu(), "cores": available_cores(), "system": platform.platform(), "versions": versions()}


def _cpu() -> str:
    facts = Path("/proc/cpuinfo").read_text().splitlines() if Path("/proc/cpuinfo").exists() else []
    names = [line.partition(":")[2].strip() for line in facts if line.startswith("model name")]
    return names[0] if names else platform.machine()
