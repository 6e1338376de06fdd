from __future__ import annotations

import resource
import subprocess
import sys
from pathlib import Path

import pytest

from phrasescore import memory
from phrasescore.memory import available_memory

GIB = 1 << 30
FILES = {
    "proc/meminfo": f"MemTotal: {64 << 20} kB\nMemFree:  1000 kB\nMemAvailable:   {32 << 20} kB\n",
    "proc/self/statm": "1000 500 100 1 0 400 0\n",
}
TWO = {
    "proc/self/cgroup": "0::/slurm/job_7/step_0\n",
    "sys/fs/cgroup/slurm/job_7/step_0/memory.max": "max\n",
    "sys/fs/cgroup/slurm/job_7/step_0/memory.current": f"{GIB}\n",
    "sys/fs/cgroup/slurm/job_7/memory.max": f"{8 * GIB}\n",
    "sys/fs/cgroup/slurm/job_7/memory.current": f"{6 * GIB}\n",
    "sys/fs/cgroup/slurm/job_7/memory.stat": f"anon {GIB}\ninactive_file {GIB}\nactive_file 7\n",
}
CONTAINER = {
    "proc/self/cgroup": "0::/\n",
    "sys/fs/cgroup/memory.max": f"{4 * GIB}\n",
    "sys/fs/cgroup/memory.current": f"{5 * GIB}\n",
}
ONE = {
    "proc/self/cgroup": "9:name=systemd:/\n4:cpu,memory:/batch/job:7\n0::/\n",
    "sys/fs/cgroup/memory/memory.limit_in_bytes": "9223372036854771712\n",
    "sys/fs/cgroup/memory/memory.usage_in_bytes": f"{GIB}\n",
    "sys/fs/cgroup/memory/batch/job:7/memory.limit_in_bytes": f"{5 * GIB}\n",
    "sys/fs/cgroup/memory/batch/job:7/memory.usage_in_bytes": f"{4 * GIB}\n",
    "sys/fs/cgroup/memory/batch/job:7/memory.stat": f"inactive_file 0\ntotal_inactive_file {GIB // 2}\n",
}


@pytest.mark.parametrize(
    ("files", "expected"),
    [({}, 32 * GIB), (TWO, 3 * GIB), (CONTAINER, 0), (ONE, GIB + GIB // 2)],
    ids=["machine", "version 2", "container", "version 1"],
)
def test_what_machine_and_groups_leave(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, files: dict[str, str], expected: int
) -> None:
    for name, content in {**FILES, **files}.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(content)
    monkeypatch.setattr(memory, "_ROOT", tmp_path)
    assert available_memory() == expected


def test_a_limit_of_address_space(monkeypatch: pytest.MonkeyPatch) -> None:
    free = available_memory()
    code = "from phrasescore.memory import available_memory; print(available_memory())"
    limited = subprocess.run(
        [sys.executable, "-c", code],
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, (GIB, GIB)),
        capture_output=True,
        check=True,
    )
    assert 0 < int(limited.stdout) < GIB
    monkeypatch.setattr(resource, "getrlimit", lambda _: (1 << 60, 1 << 60))
    assert available_memory() > GIB // 100
    assert free > GIB // 100


def test_a_system_that_tells_nothing_has_what_the_machine_has(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory, "_ROOT", tmp_path)
    assert available_memory() > GIB // 10
