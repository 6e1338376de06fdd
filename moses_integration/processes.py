"""Processes that share work: how many, and that Ctrl-C is not for them."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from multiprocessing import active_children, get_context
from typing import Any


def available_cores() -> int:
    """Return how many cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


@contextmanager
def _deaf_to_interrupts() -> Iterator[None]:
    """Let processes that are started meanwhile never see Ctrl-C, which is for the parent: it ends them.

    A process inherits which signals are blocked. An initialiser that ignores them would come too late for a Ctrl-C
    while Python starts. One that comes now waits until the block ends.
    """
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


@contextmanager
def worker_pool(
    processes: int, initializer: Callable[..., object] | None = None, arguments: tuple[Any, ...] = ()
) -> Iterator[ProcessPoolExecutor]:
    """Yield a pool of spawned processes that end at once, in the middle of their work, if an exception comes out.

    Left to itself a pool waits for the tasks that run, which may take minutes, even after Ctrl-C.
    """
    with ProcessPoolExecutor(processes, get_context("spawn"), initializer, arguments) as pool:
        others = active_children()
        with _deaf_to_interrupts():
            # A task for which no process is idle starts one.
            for _ in range(processes):
                pool.submit(int)
        workers = [process for process in active_children() if process not in others]
        try:
            yield pool
        except BaseException:
            for worker in workers:
                worker.terminate()
            raise
