"""`annotate` as a user runs it: the seconds it takes, start-up and all, and the memory of all its processes."""

from __future__ import annotations

import re
import resource
import subprocess
import sys
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

_SECONDS_BETWEEN = 0.2


@dataclass(frozen=True)
class Run:
    """What a run took."""

    seconds: float
    """By the clock."""
    cpu_seconds: float
    """Of the processor, all processes."""
    process_mb: float
    """The most memory that one of its processes had."""
    all_mb: float
    """The most that all had at a time; what several share is counted once."""


def annotate(table: Path, network: Path, *options: str, measure_memory: bool = False) -> Run:
    """Annotate a table, to a gzip file beside it.

    Memory is read from /proc a few times a second, if it is asked for: that takes time from the run.
    """
    output = table.with_suffix(".out.gz")
    command = [sys.executable, "-m", "phrasescore", "annotate", str(table), "-m", str(network), "-o", str(output)]
    started, cpu_started = time.perf_counter(), _cpu_seconds()
    process = subprocess.Popen([*command, "--quiet", *options])
    peaks: dict[int, float] = {}
    all_mb = 0.0
    while measure_memory and process.poll() is None:
        family = _family(process.pid)
        for member in family:
            peaks[member] = max(peaks.get(member, 0.0), _megabytes(f"/proc/{member}/status", "VmHWM"))
        all_mb = max(all_mb, sum(_megabytes(f"/proc/{member}/smaps_rollup", "Pss") for member in family))
        time.sleep(_SECONDS_BETWEEN)
    status = process.wait()
    seconds = time.perf_counter() - started
    if status:
        raise RuntimeError("annotate failed")
    output.unlink()
    return Run(seconds, _cpu_seconds() - cpu_started, max(peaks.values(), default=0.0), all_mb)


def _cpu_seconds() -> float:
    """Return what processes that have ended took of the processor."""
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def _family(parent: int) -> list[int]:
    """Return a process and all that descend from it."""
    family = [parent]
    for member in family:
        with suppress(OSError):
            for children in Path(f"/proc/{member}/task").glob("*/children"):
                family += map(int, children.read_text().split())
    return family


def _megabytes(file: str, name: str) -> float:
    """Return a figure of a process; 0 if it has ended."""
    with suppress(OSError):
        if found := re.search(rf"^{name}:\s+(\d+) kB$", Path(file).read_text(), re.MULTILINE):
            return int(found[1]) / 1024
    return 0.0
