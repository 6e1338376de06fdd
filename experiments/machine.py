"""The machine and the libraries that figures come from, and how time is told on it."""

from __future__ import annotations

import platform
import resource
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from phrasescore import __version__
from phrasescore.device import Device
from phrasescore.workers import available_cores

_LIBRARIES = ("torch", "numpy", "sacrebleu", "sacremoses", "sil-thot", "ufal.kenlm")


def machine() -> dict[str, Any]:
    """Return processor, cores that this process may use, system, and versions."""
    return {"cpu": _cpu(), "cores": available_cores(), "system": platform.platform(), "versions": _versions()}


def used_time(device: Device) -> float:
    """Return a time that runs while this process works: the CPU's, or the clock's where a GPU works; in seconds."""
    return time.process_time() if device.torch_device.type == "cpu" else time.monotonic()


def peak_memory_mb(usage: resource.struct_rusage) -> float:
    """Return the most memory that a process had: macOS counts it in bytes, Linux in kilobytes."""
    return usage.ru_maxrss / (1 << 20 if sys.platform == "darwin" else 1 << 10)


@dataclass
class Timing:
    """How long something took."""

    seconds: float = 0.0
    """By the clock."""
    cpu_seconds: float = 0.0
    """Of the processor, all threads of this process."""


@contextmanager
def timed() -> Iterator[Timing]:
    """Measure what is done inside the `with`; the result is filled in at its end."""
    timing, started, cpu_started = Timing(), time.monotonic(), time.process_time()
    yield timing
    timing.seconds, timing.cpu_seconds = time.monotonic() - started, time.process_time() - cpu_started


def _cpu() -> str:
    facts = Path("/proc/cpuinfo").read_text().splitlines() if Path("/proc/cpuinfo").exists() else []
    names = [line.partition(":")[2].strip() for line in facts if line.startswith("model name")]
    return names[0] if names else platform.machine()


def _versions() -> dict[str, str]:
    found = {"phrasescore": __version__, "python": platform.python_version()}
    for library in _LIBRARIES:
        try:
            found[library] = version(library)
        except PackageNotFoundError:
            # Another build of the same module may be installed.
            continue
    return found
