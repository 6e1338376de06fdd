"""One task for many items, run by worker processes or machines, its results in the order of the items.

    with start_workers("a process was killed; use fewer", processes=4) as workers:
        for result in map_ordered(task, items, workers):
            ...

Workers are processes of this machine, those of a Dask scheduler, or this process (`Serial`). A task is something that
can be pickled, best a frozen dataclass of paths and settings. The task of a lost worker runs again in another one.
"""

from __future__ import annotations

import io
import logging
import os
import pickle
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator
from concurrent.futures import CancelledError, Future, wait
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, Protocol, Self, TypeVar

from phrasescore.errors import UserError, WorkersLostError, sentence_of
from phrasescore.processes import Processes

if TYPE_CHECKING:
    from distributed import Client

Item = TypeVar("Item")
Result = TypeVar("Result")
Value = TypeVar("Value")
Value_co = TypeVar("Value_co", covariant=True)

_TASKS_AHEAD = 2
"""Tasks that wait for each worker: enough to keep it busy, few enough for memory."""
_SECONDS_TO_CONNECT = 20
_SECONDS_WITHOUT_WORKERS = 600
"""How long a scheduler may have no workers: they may be coming."""
_SECONDS_BETWEEN_LOOKS = 10


class Answer(Protocol):
    """The result of a task, once it is there: of a process, or a future of Dask."""

    def done(self) -> bool:
        """Whether it is there."""
        ...

    def result(self) -> Any:
        """Wait for it.

        Raises:
            BaseException: what the task failed with, or WorkersLostError.
        """
        ...

    def cancel(self) -> object:
        """Do not begin the task: nobody wants the result."""
        ...


class Workers(Protocol):
    """Those who share some work."""

    @property
    def number(self) -> int:
        """How many there are."""
        ...

    def submit(self, task: Callable[[Any], Any], item: Any) -> Answer:
        """Let a worker run a task for an item."""
        ...


def map_ordered(
    task: Callable[[Item], Result], items: Iterable[Item | None], workers: Workers
) -> Generator[Result, None, None]:
    """Yield the task's result for each item, in order; a bounded number of items is taken ahead.

    None is no item: the next one has not come yet, which leaves time to yield a result that is there.

    Raises:
        WorkersLostError: workers are lost again and again.
        BaseException: what the task fails with, for the first item that it fails for.
    """
    waiting: deque[Answer] = deque()
    try:
        for item in items:
            if item is not None:
                waiting.append(workers.submit(task, item))
            while waiting and (len(waiting) >= _TASKS_AHEAD * workers.number or waiting[0].done()):
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()
    finally:
        for answer in waiting:
            answer.cancel()


def available_cores() -> int:
    """Return how many cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


class Shared(Generic[Value_co]):
    """A large thing that a task needs: it does not go with the task, but is made again where the task is done.

    There it is kept for other tasks, along with a few of its like.
    """

    def __init__(self, value: Value_co, make: Callable[[], Value_co] | None = None) -> None:
        """Take the thing, and what makes it elsewhere: hashable, picklable; None if the thing itself is to be sent."""
        self._value: Value_co | None = value
        self._make = make

    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__ if self._make is None else {"_value": None, "_make": self._make}

    def get(self) -> Value_co:
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


@dataclass(frozen=True)
class Stored:
    """A file or folder that is read again where a task is done, and must be there what it is here."""

    name: Path
    """What messages call it."""
    place: Path
    """Where it lies, whatever the working directory is."""
    digest: str
    """SHA-256 of the file, or of the weights in the folder."""

    @classmethod
    def at(cls, path: str | Path, digest: str) -> Self:
        """Return what lies at a path and has a digest."""
        return cls(Path(path), Path(path).resolve(), digest)

    def require(self, digest: str | None) -> None:
        """Check the digest of what was found there.

        Raises:
            UserError: it is another one.
        """
        if digest != self.digest:
            raise UserError(f"{self.name}: is another one now than a moment ago; start again when it is complete")


@contextmanager
def start_workers(
    killed: str,
    processes: int | None = None,
    scheduler: str | None = None,
    threads: int = 1,
    tries: int = 3,
    *,
    apart: bool = False,
) -> Iterator[Workers]:
    """Yield workers, which end afterwards, in the middle of their work if an exception is raised.

    Args:
        killed: the message if workers are lost again and again, most likely for want of memory.
        processes: of this machine, all cores if it is None; 1 is this process.
        scheduler: address of a Dask scheduler, whose workers are taken instead.
        threads: that each process of this machine computes with.
        tries: how often a task runs whose process of this machine is killed.
        apart: start another process even if it is one, as libraries need that would take more threads here.

    Raises:
        UserError: there is no such scheduler, it has no workers, or Dask is not installed.
    """
    if scheduler is not None:
        with _dask_workers(killed, scheduler) as workers:
            yield workers
        return
    number = processes or available_cores()
    if number == 1 and not apart:
        yield Serial()
        return
    shared = Processes(killed, number, threads, tries)
    try:
        yield shared
    finally:
        shared.end()


class Serial:
    """This process: each task runs when it is submitted."""

    number = 1

    def submit(self, task: Callable[[Any], Any], item: Any) -> Answer:
        """Run the task."""
        future = Future[Any]()
        future.set_result(task(item))
        return future


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
        raise UserError("--scheduler: needs Dask; pip install distributed") from error

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
        # Not pure: Dask would take equal calls for one.
        self._executor = client.get_executor(pure=False)
        self._require_workers(_SECONDS_TO_CONNECT)

    @property
    def number(self) -> int:
        threads: dict[str, int] = self._client.nthreads()
        return max(1, sum(threads.values()))

    def _require_workers(self, seconds: float) -> None:
        """Wait until there are workers.

        Raises:
            WorkersLostError: there are none for so many seconds.
        """
        try:
            self._client.wait_for_workers(1, timeout=seconds)
        except TimeoutError as error:
            raise WorkersLostError(
                f"{self._address}: the scheduler has no workers; start some by "
                f"`dask worker {self._address} --nthreads 1`"
            ) from error

    def submit(self, task: Callable[[Any], Any], item: Any) -> Answer:
        return _DaskAnswer(self._executor.submit(_run_on_worker, _pickled((task, item))), self)

    def result_of(self, future: Future[Any]) -> Any:
        """Wait for a result, but not while there are no workers: a future of Dask would wait for ever.

        Raises:
            WorkersLostError: there are none, each is killed, or the scheduler has gone.
        """
        from distributed import KilledWorker
        from distributed.comm.core import CommClosedError

        try:
            while not wait([future], _SECONDS_BETWEEN_LOOKS).done:
                self._require_workers(_SECONDS_WITHOUT_WORKERS)
            return future.result()
        except KilledWorker as error:
            raise WorkersLostError(self._killed) from error
        except (CancelledError, CommClosedError) as error:
            raise WorkersLostError(
                f"{self._address}: the scheduler has gone; start it and its workers again"
            ) from error


@dataclass(frozen=True)
class _DaskAnswer:
    """A result of a Dask worker."""

    future: Future[Any]
    workers: _Dask

    def done(self) -> bool:
        return self.future.done()

    def result(self) -> Any:
        return self.workers.result_of(self.future)

    def cancel(self) -> None:
        self.future.cancel()


class _AbsolutePathPickler(pickle.Pickler):
    """Makes every path absolute: the working directory of a Dask worker is another one."""

    def reducer_override(self, value: Any) -> Any:
        """Return how to pickle a path, and leave everything else to the pickler."""
        return (type(value), (str(value.absolute()),)) if isinstance(value, Path) else NotImplemented


def _pickled(value: object) -> bytes:
    stream = io.BytesIO()
    _AbsolutePathPickler(stream, pickle.HIGHEST_PROTOCOL).dump(value)
    return stream.getvalue()


def _run_on_worker(message: bytes) -> Any:
    """Run a pickled task on a Dask worker.

    Raises:
        UserError: the task fails with an error for the user; the message names the worker.
    """
    from distributed import get_worker

    try:
        task, item = pickle.loads(message)
        return task(item)
    except Exception as error:
        if (sentence := sentence_of(error)) is None:
            raise
        # Classes of other modules may take other arguments, with which unpickling fails.
        kind = next((kind for kind in type(error).__mro__ if kind.__module__ == UserError.__module__), UserError)
        raise kind(f"{sentence} (on the Dask worker {get_worker().address})") from error
