"""Worker processes leave Ctrl-C to their parent, which ends them at once."""

from __future__ import annotations

import os
import signal
import time

import pytest

from moses_integration.processes import available_cores, worker_pool


def test_there_is_a_core() -> None:
    assert 1 <= available_cores() <= (os.cpu_count() or 1)


def stop_in_the_middle() -> None:
    with worker_pool(2) as pool:
        sleeping = [pool.submit(time.sleep, 100) for _ in range(2)]
        while not all(task.running() for task in sleeping):
            time.sleep(0.01)
        raise KeyboardInterrupt


def test_a_stopped_pool_does_not_wait_for_its_tasks() -> None:
    started = time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        stop_in_the_middle()
    assert time.monotonic() - started < 50


def test_workers_do_not_hear_an_interrupt() -> None:
    with worker_pool(1) as pool:
        worker = pool.submit(os.getpid).result()
        os.kill(worker, signal.SIGINT)
        assert pool.submit(os.getpid).result() == worker
    assert signal.SIGINT not in signal.pthread_sigmask(signal.SIG_BLOCK, [])
