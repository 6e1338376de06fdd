"""Worker processes leave Ctrl-C to their parent, which ends them at once."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time

import pytest

from moses_integration.processes import available_cores, worker_pool
from phrasescore.errors import UserError


def test_there_is_a_core() -> None:
    assert 1 <= available_cores() <= (os.cpu_count() or 1)


def stop_in_the_middle() -> None:
    with worker_pool(2, "killed") as pool:
        sleeping = [pool.submit(time.sleep, 100) for _ in range(2)]
        while not all(task.running() for task in sleeping):
            time.sleep(0.01)
        raise KeyboardInterrupt


def test_a_stopped_pool_does_not_wait_for_its_tasks() -> None:
    started = time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        stop_in_the_middle()
    assert time.monotonic() - started < 50


def test_workers_end_with_a_parent_that_is_killed() -> None:
    code = (
        "import time\nfrom moses_integration.processes import worker_pool\n"
        "if __name__ == '__main__':\n"
        "    with worker_pool(2, 'killed') as pool:\n"
        "        sleeping = [pool.submit(time.sleep, 100) for _ in range(2)]\n"
        "        while not all(task.running() for task in sleeping): time.sleep(0.01)\n"
        "        print('.', end='', flush=True)\n"
        "        sleeping[0].result()\n"
    )
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE) as parent:
        assert parent.stdout is not None
        assert parent.stdout.read(1) == b"."
        parent.kill()
        started = time.monotonic()
        # The workers have inherited it: the end comes when the last of them has ended.
        assert parent.stdout.read() == b""
        assert time.monotonic() - started < 50


def test_workers_do_not_hear_an_interrupt() -> None:
    with worker_pool(1, "killed") as pool:
        worker = pool.submit(os.getpid).result()
        os.kill(worker, signal.SIGINT)
        assert pool.submit(os.getpid).result() == worker
    assert signal.SIGINT not in signal.pthread_sigmask(signal.SIG_BLOCK, [])


def test_a_worker_that_is_killed_is_one_sentence() -> None:
    with (
        pytest.raises(UserError, match="work: a process was killed"),
        worker_pool(2, "work: a process was killed") as p,
    ):
        p.submit(os._exit, 9).result()
