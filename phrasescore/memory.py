"""Available memory."""

from __future__ import annotations

import os
import re
import resource
from collections.abc import Iterator
from pathlib import Path

_ROOT = Path("/")
_KIBIBYTE = 1 << 10


def available_memory() -> int:
    """Return how many bytes this process can still allocate, as far as the system reports it.

    It is the minimum of the free memory of the machine, the remainder of the control groups of the process (those of a
    container or a batch system), and its limit of address space (`ulimit -v`). Pages of the file cache count as free.
    """
    return max(min([_free_in_the_machine(), *_free_in_control_groups(), *_free_address_space()]), 0)


def _free_in_the_machine() -> int:
    found = re.search(r"^MemAvailable: +(\d+) kB$", _read(_ROOT / "proc/meminfo"), re.MULTILINE)
    # Other systems than Linux report the total memory of the machine only.
    return int(found[1]) * _KIBIBYTE if found else os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")


def _free_in_control_groups() -> Iterator[int]:
    """Yield the remainder of each group that sets a limit, from the innermost to the outermost."""
    mounted = _ROOT / "sys/fs/cgroup"
    for line in _read(_ROOT / "proc/self/cgroup").splitlines():
        _, controllers, group = line.split(":", 2)
        if not controllers:
            top, limit_file, usage_file, cached_name = mounted, "memory.max", "memory.current", "inactive_file"
        elif "memory" in controllers.split(","):
            top, limit_file, usage_file = mounted / "memory", "memory.limit_in_bytes", "memory.usage_in_bytes"
            cached_name = "total_inactive_file"
        else:
            continue
        inner = top / group.lstrip("/")
        # A container may see its group as the root, and not the path to it.
        for folder in (inner, *inner.parents):
            limit, usage = _read(folder / limit_file).strip(), _read(folder / usage_file).strip()
            if limit.isdigit() and usage.isdigit():
                cached = re.search(rf"^{cached_name} (\d+)$", _read(folder / "memory.stat"), re.MULTILINE)
                yield int(limit) - int(usage) + (int(cached[1]) if cached else 0)
            if folder == top:
                break


def _free_address_space() -> Iterator[int]:
    limit, _ = resource.getrlimit(resource.RLIMIT_AS)
    pages = _read(_ROOT / "proc/self/statm").split(" ")[0]
    if limit != resource.RLIM_INFINITY:
        yield limit - int(pages or 0) * os.sysconf("SC_PAGE_SIZE")


def _read(path: Path) -> str:
    """Return the content of a system file, or an empty string if it does not exist."""
    try:
        return path.read_text(errors="replace")
    except OSError:
        return ""
