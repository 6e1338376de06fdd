from __future__ import annotations

from pathlib import Path

import pytest

from moses_integration.building import language_model
from moses_integration.building.language_model import available_memory

GIB = 1 << 30
FILES = {
    "proc/meminfo": f"MemTotal: {64 << 20} kB\nMemFree:  1000 kB\nMemAvailable:   {32 << 20} kB\n",
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


@pytest.mark.parametrize(
    ("files", "expected"),
    [({}, 32 * GIB), (TWO, 3 * GIB), (CONTAINER, 0)],
    ids=["machine", "groups", "container"],
)
def test_memory_left_by_machine_and_control_groups(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, files: dict[str, str], expected: int
) -> None:
    for name, content in {**FILES, **files}.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(content)
    monkeypatch.setattr(language_model, "_ROOT", tmp_path)
    assert available_memory() == expected


def test_a_system_that_tells_nothing_has_what_the_machine_has(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(language_model, "_ROOT", tmp_path)
    assert available_memory() > GIB // 10
