"""Measure time."""

from __future__ import annotations

import resource
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass


@dataclass
class Timing:
    """Duration of a block."""

    seconds: float = 0.0
    """Wall-clock time."""
    cpu_seconds: float = 0.0
    """CPU time of all threads of this process and of child processes that have ended."""


@contextmanager
def timed() -> Iterator[Timing]:
    """Measure the duration of a `with` block; the result is set at its end."""
    timing, started, cpu_started = Timing(), time.monotonic(), _cpu_seconds()
    yield timing
    timing.seconds, timing.cpu_seconds = time.monotonic() - started, _cpu_seconds() - cpu_started


def _cpu_seconds() -> float:
    children = resource.getrusage(resource.RUSAGE_CHILDREN)
    return time.process_time() + children.ru_utime + children.ru_stime
