"""How time is told."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass


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
