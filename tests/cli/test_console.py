"""What a command tells of its end, and of its progress."""

from __future__ import annotations

import os
import signal

import pytest
import torch

from phrasescore.cli.console import Reporter, interrupt_on_signals, run_command
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


def test_a_closed_terminal_ends_the_work_unless_nohup_runs_it() -> None:
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with interrupt_on_signals():
            os.kill(os.getpid(), signal.SIGHUP)
        signal.signal(signal.SIGHUP, signal.SIG_DFL)
        with pytest.raises(SystemExit) as stopped, interrupt_on_signals():
            os.kill(os.getpid(), signal.SIGHUP)
        assert stopped.value.code == 129
        assert signal.getsignal(signal.SIGHUP) == signal.SIG_DFL
    finally:
        signal.signal(signal.SIGHUP, before)


def test_the_time_that_is_left_of_a_resumed_training(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """It was half done: a tenth in ten minutes, so that four tenths are left for forty."""
    clock = 0.0
    monkeypatch.setattr("phrasescore.cli.console.time.monotonic", lambda: clock)
    with Reporter(quiet=False).task("training") as task:
        task.update(0.5, "begins")
        clock = 600.0
        task.update(0.6, "goes on")
    assert "training: 60%, 40 min left, goes on" in capsys.readouterr().err
