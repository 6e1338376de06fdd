"""What a command tells of its end, and of its progress."""

from __future__ import annotations

import pytest
import torch

from phrasescore.cli.console import run_command
from phrasescore.plugins import plugins_blamed


def fail(error: Exception) -> int:
    with plugins_blamed():
        raise error


@pytest.mark.parametrize(
    "error",
    [
        MemoryError(),
        torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 20.00 MiB"),
        RuntimeError("[enforce fail at alloc_cpu.cpp:127] err == 0. DefaultCPUAllocator: can't allocate memory: you"),
    ],
)
def test_memory_that_runs_out_is_one_sentence(error: Exception, capsys: pytest.CaptureFixture[str]) -> None:
    assert run_command("phrasescore train", lambda: fail(error)) == 1
    assert capsys.readouterr().err == (
        "phrasescore train: memory ran out; close other programs or give smaller sizes\n"
    )


def test_other_errors_with_memory_keep_their_cause() -> None:
    with pytest.raises(RuntimeError, match="illegal memory access"):
        run_command("phrasescore train", lambda: fail(RuntimeError("CUDA error: an illegal memory access")))
