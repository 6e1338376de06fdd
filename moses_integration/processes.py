"""Processes that share work: how many, that Ctrl-C is not for them, and that none outlives its parent."""

from __future__ import annotations

import os
import signal
import subprocess
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager, suppress
from multiprocessing import active_children, get_context, parent_process
from multiprocessing.connection import wait
from typing import Any

from phrasescore.errors import UserError

_SECONDS_TO_END = 5
_ENDINGS = {signal.SIGTERM, signal.SIGHUP}


def available_cores() -> int:
    """Return how many cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


@contextmanager
def _undisturbed() -> Iterator[None]:
    """Let no Ctrl-C, SIGTERM or SIGHUP come while processes start; one that comes now waits until the block ends.

    A process inherits which signals are blocked. Ctrl-C stays blocked, for it is for the parent, which ends the others;
    an initialiser that ignores it would come too late for one while Python starts. A parent that unwinds meanwhile
    would leave a process with half of what it reads to begin with, of which it complains.
    """
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT, *_ENDINGS})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


@contextmanager
def worker_pool(
    processes: int, killed: str, initializer: Callable[..., object] | None = None, arguments: tuple[Any, ...] = ()
) -> Iterator[ProcessPoolExecutor]:
    """Yield a pool of spawned processes that end at once, in the middle of their work, if an exception comes out.

    Left to itself a pool waits for the tasks that run, which may take minutes, even after Ctrl-C. They end, too, when
    the parent is killed. `killed` is what to say if one of them is.

    Raises:
        UserError: one was killed, for which the system runs out of memory most often.
    """
    with ProcessPoolExecutor(processes, get_context("spawn"), _start, (initializer, arguments)) as pool:
        others = active_children()
        with _undisturbed():
            # A task for which no process is idle starts one.
            for _ in range(processes):
                pool.submit(int)
        workers = [process for process in active_children() if process not in others]
        try:
            yield pool
        except BrokenProcessPool as error:
            raise UserError(killed) from error
        except BaseException:
            for worker in workers:
                worker.terminate()
            raise


def end_group(process: subprocess.Popen[bytes]) -> None:
    """End a program that was started with `process_group=0`, and all that it started."""
    for number in (signal.SIGTERM, signal.SIGKILL):
        with suppress(ProcessLookupError):
            os.killpg(process.pid, number)
        with suppress(subprocess.TimeoutExpired):
            process.wait(_SECONDS_TO_END)


# In the worker processes


def _start(initializer: Callable[..., object] | None, arguments: tuple[Any, ...]) -> None:
    signal.pthread_sigmask(signal.SIG_UNBLOCK, _ENDINGS)
    threading.Thread(target=_end_with_parent, daemon=True).start()
    if initializer is not None:
        initializer(*arguments)


def _end_with_parent() -> None:
    """Wait for the parent's end, and end this process in the middle of its work."""
    parent = parent_process()
    assert parent is not None
    wait([parent.sentinel])
    os._exit(1)
