"""Work that is shared: one task for many items, done by other processes or machines, its results in the items' order.

Who shares work sees `Workers` alone. Behind it is any `concurrent.futures.Executor`: spawned processes of this machine,
or the workers of a Dask scheduler, wherever they run. A task is something that can be pickled, best a frozen dataclass
of paths and settings; what takes long to load it keeps in a cache of the process that it runs in. What the task of a
lost worker was doing is done again.
"""

from __future__ import annotations

import logging
import os
import re
import signal
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import BrokenExecutor, CancelledError, Future, ProcessPoolExecutor
from contextlib import contextmanager, suppress
from functools import lru_cache, partial
from multiprocessing import active_children, current_process, get_context, parent_process
from multiprocessing.connection import wait
from multiprocessing.process import BaseProcess
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar

from phrasescore.errors import UserError, WorkersLostError

if TYPE_CHECKING:
    from distributed import Client

Item = TypeVar("Item")
Result = TypeVar("Result")
Value = TypeVar("Value")

_TASKS_AHEAD = 2
"""Tasks that wait for each worker: enough to keep it busy, few enough for memory."""
_ENDINGS = {signal.SIGTERM, signal.SIGHUP}
_SECONDS_TO_CONNECT = 20
_NAME = re.compile(r"SpawnProcess-(?:\d+:)*(\d+)")
"""How multiprocessing names the processes that it spawns."""
_UNGUARDED = (
    "sharing work: no process could begin, for each imports the script that started it; let that be a file, with what "
    'it does under `if __name__ == "__main__":`, or take one process'
)


class Workers(Protocol):
    """Those who share some work."""

    @property
    def number(self) -> int:
        """How many there are."""
        ...

    def in_order(self, task: Callable[[Item], Result], items: Iterable[Item | None]) -> Iterator[Result]:
        """Yield the task's result for each item, in order; only so many items are taken ahead.

        None is no item: it says that the next one has not come yet, and leaves time to yield a result that is there.

        Raises:
            WorkersLostError: workers are lost again and again.
            BaseException: what the task fails with, for the first item that it fails for.
        """
        ...


def available_cores() -> int:
    """Return how many cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


class Shared(Generic[Value]):
    """A large thing that a task needs: it does not go with the task, but is made again where the task is done.

    There it is kept for other tasks, along with a few of its like.
    """

    def __init__(self, value: Value, make: Callable[[], Value] | None = None) -> None:
        """Take the thing, and what makes it elsewhere: hashable, picklable; None if the thing itself is to be sent."""
        self._value: Value | None = value
        self._make = make

    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__ if self._make is None else {"_value": None, "_make": self._make}

    def get(self) -> Value:
        """Return it.

        Raises:
            BaseException: what making it fails with.
        """
        if self._value is None:
            assert self._make is not None
            self._value = _made(self._make)
        return self._value


@lru_cache(maxsize=4)
def _made(make: Callable[[], Value]) -> Value:
    return make()


@contextmanager
def share_work(
    killed: str, processes: int | None = None, scheduler: str | None = None, threads: int = 1, tries: int = 3
) -> Iterator[Workers]:
    """Yield workers, which are let go afterwards, in the middle of their work if an exception comes out.

    Args:
        killed: the sentence to say when workers are lost again and again, most likely for want of memory.
        processes: of this machine, all cores if it is None; with 1 the work is done right here.
        scheduler: address of a Dask scheduler, whose workers are taken instead.
        threads: that each process of this machine computes with.
        tries: how often work is tried that a process of this machine did not survive.

    Raises:
        UserError: there is no such scheduler, it has no workers, Dask is not installed, or the script that calls this
            is not to be imported.
    """
    if scheduler is not None:
        with _dask_workers(killed, scheduler) as workers:
            yield workers
        return
    number = processes or available_cores()
    if number == 1:
        yield Here()
        return
    shared = _Processes(killed, number, threads, tries)
    try:
        yield shared
    except BaseException:
        shared.end(at_once=True)
        raise
    shared.end()


class Here:
    """Nobody else: the work is done by who asks for it."""

    number = 1

    def in_order(self, task: Callable[[Item], Result], items: Iterable[Item | None]) -> Iterator[Result]:
        """Yield the task's result for each item."""
        return (task(item) for item in items if item is not None)


def _in_order(
    submit: Callable[[Item], Future[Result]],
    items: Iterable[Item | None],
    ahead: Callable[[], int],
    renew: Callable[[], None],
) -> Iterator[Result]:
    """Yield the results of some items, submitted a bounded number ahead; `renew` is called when workers are lost."""
    waiting: deque[tuple[Item, Future[Result]]] = deque()

    def first_result() -> Result:
        while True:
            try:
                result = waiting[0][1].result()
            except BrokenExecutor:
                renew()
                again = [item for item, _ in waiting]
                waiting.clear()
                waiting.extend((item, submit(item)) for item in again)
            else:
                waiting.popleft()
                return result

    for item in items:
        if item is not None:
            waiting.append((item, submit(item)))
        while len(waiting) >= ahead() or (waiting and waiting[0][1].done()):
            yield first_result()
    while waiting:
        yield first_result()


class _Processes:
    """Spawned processes of this machine, which end with their parent and do not hear Ctrl-C: that is for the parent.

    They are spawned, not forked: a forked child may inherit a locked lock from a library's thread.
    """

    def __init__(self, killed: str, number: int, threads: int, tries: int) -> None:
        self.number = number
        self._killed, self._threads, self._tries = killed, threads, tries
        self._start()

    def _start(self) -> None:
        others = {*active_children()}
        self._pool = ProcessPoolExecutor(self.number, get_context("spawn"), _begin, (self._threads,))
        self._first: list[Future[int]] = []
        self._workers: set[BaseProcess] = set()
        with _undisturbed(), suppress(BrokenExecutor):
            # A task for which no process is idle starts one. The first may have ended when the last starts.
            for _ in range(self.number):
                self._first.append(self._pool.submit(int))
                self._workers |= {*active_children()} - others

    def in_order(self, task: Callable[[Item], Result], items: Iterable[Item | None]) -> Iterator[Result]:
        lost = 0

        def renew() -> None:
            nonlocal lost
            lost += 1
            self.end(at_once=True)
            if self._none_could_begin():
                raise UserError(_UNGUARDED)
            if lost == self._tries:
                raise WorkersLostError(self._killed)
            self._start()

        def submit(item: Item) -> Future[Result]:
            try:
                return self._pool.submit(task, item)
            except BrokenExecutor:
                renew()
                return submit(item)

        for result in _in_order(submit, items, lambda: _TASKS_AHEAD * self.number, renew):
            lost = 0
            yield result

    def _none_could_begin(self) -> bool:
        """Whether processes, which have ended now, did so by themselves, not by a signal, before they had done a thing.

        A spawned process first imports the script that started it. One that has no guard shares its work there, which
        Python forbids.
        """
        ended = any(worker.exitcode is not None and worker.exitcode >= 0 for worker in self._workers)
        return ended and all(future.exception() for future in self._first)

    def end(self, *, at_once: bool = False) -> None:
        """Let the processes go; at once, in the middle of their work, which may take minutes.

        No task is cancelled, for the pool cannot bear that when its processes end, and says so on standard error
        (python/cpython issue 107219, mended in 3.12).
        """
        if at_once:
            for worker in self._workers:
                worker.terminate()
        self._pool.shutdown()


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
def _dask_workers(killed: str, address: str) -> Iterator[Workers]:
    """Yield the workers of a Dask scheduler."""
    try:
        from distributed import Client
        from distributed.comm.addressing import parse_address, parse_host_port
        from distributed.comm.registry import get_backend
        from distributed.core import rpc
        from distributed.security import Security
        from distributed.utils import LoopRunner
    except ImportError as error:
        raise UserError("--scheduler: needs Dask; pip install 'phrasescore[cluster]'") from error

    async def greet() -> None:
        async with rpc(address, connection_args=Security().get_connection_args("client")) as scheduler:
            await scheduler.identity()

    try:
        # A client would try for half a minute to reach what is no address, and for ever what is no scheduler.
        kind, place = parse_address(address)
        get_backend(kind)
        parse_host_port(place)
        LoopRunner().run_sync(greet, callback_timeout=_SECONDS_TO_CONNECT)
        client = Client(address, timeout=_SECONDS_TO_CONNECT, set_as_default=False)
    except (OSError, ValueError, TimeoutError) as error:
        raise UserError(
            f"{address}: no Dask scheduler answers there; start one by `dask scheduler`, or check the address"
        ) from error
    with _silent("distributed.client"), client:
        yield _Dask(killed, client, address)


@contextmanager
def _silent(name: str) -> Iterator[None]:
    """Let a logger say nothing: of a scheduler that has gone it prints a page of what has happened inside."""
    logger = logging.getLogger(name)
    before = logger.level
    logger.setLevel(logging.CRITICAL + 1)
    try:
        yield
    finally:
        logger.setLevel(before)


class _Dask:
    """The workers of a Dask scheduler, which may become more or fewer while they work."""

    def __init__(self, killed: str, client: Client, address: str) -> None:
        self._killed, self._client, self._address = killed, client, address
        try:
            client.wait_for_workers(1, timeout=_SECONDS_TO_CONNECT)
        except TimeoutError as error:
            raise UserError(
                f"{address}: the scheduler has no workers; start some by `dask worker {address}`"
            ) from error

    @property
    def number(self) -> int:
        threads: dict[str, int] = self._client.nthreads()
        return max(1, sum(threads.values()))

    def in_order(self, task: Callable[[Item], Result], items: Iterable[Item | None]) -> Iterator[Result]:
        from distributed import KilledWorker
        from distributed.comm.core import CommClosedError

        # Not pure: Dask would take equal calls for one.
        executor = self._client.get_executor(pure=False)
        submit = partial(executor.submit, task)
        try:
            yield from _in_order(submit, items, lambda: _TASKS_AHEAD * self.number, lambda: None)
        except KilledWorker as error:
            raise WorkersLostError(self._killed) from error
        except (CancelledError, CommClosedError) as error:
            raise WorkersLostError(
                f"{self._address}: the scheduler has gone; start it and its workers again"
            ) from error
        finally:
            executor.shutdown(wait=False)


# In the processes of this machine


def process_number() -> int | None:
    """Return the number of this process among those that share work on this machine, None for who shares it out.

    Processes that are started together have numbers that follow one another; one that takes the place of a lost one has
    a new number.
    """
    found = _NAME.fullmatch(current_process().name)
    return int(found[1]) - 1 if found else None


def _begin(threads: int) -> None:
    # Libraries read it when they are imported, which they are when a task needs them.
    os.environ["OMP_NUM_THREADS"] = str(threads)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, _ENDINGS)
    threading.Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    """Wait for the parent's end, and end this process in the middle of its work."""
    parent = parent_process()
    assert parent is not None
    wait([parent.sentinel])
    os._exit(1)
