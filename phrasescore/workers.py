"""Run one task for many items on worker processes or machines, with results in the order of the items.

    with start_workers("a process was killed; use fewer", processes=4) as workers:
        for result in map_ordered(task, items, workers):
            ...

Workers are processes of this machine, workers of a Dask scheduler, or this process (`Serial`). A task is picklable,
preferably a frozen dataclass of paths and settings. The task of a lost worker is retried on another worker.
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

from phrasescore.errors import UserError, WorkersLostError, sentence_of, spelled
from phrasescore.processes import Processes

if TYPE_CHECKING:
    from distributed import Client

Item = TypeVar("Item")
Result = TypeVar("Result")
Value = TypeVar("Value")
Value_co = TypeVar("Value_co", covariant=True)

_TASKS_AHEAD = 2
"""Queued tasks per worker: enough to keep it busy, few enough for memory."""
_SECONDS_TO_CONNECT = 20
_SECONDS_WITHOUT_WORKERS = 600
"""How long to wait for workers of a scheduler that has none, because workers may still be starting."""
_SECONDS_BETWEEN_LOOKS = 10


class Answer(Protocol):
    """The future result of a task, from a process or from Dask."""

    def done(self) -> bool:
        """Return whether the result is available."""
        ...

    def result(self) -> Any:
        """Wait for the result.

        Raises:
            BaseException: the error of the task, or WorkersLostError.
        """
        ...

    def cancel(self) -> object:
        """Cancel the task if it has not started."""
        ...


class Workers(Protocol):
    """The workers that run tasks."""

    @property
    def number(self) -> int:
        """The number of workers."""
        ...

    def submit(self, task: Callable[[Any], Any], item: Any) -> Answer:
        """Run a task for an item on a worker."""
        ...


def map_ordered(
    task: Callable[[Item], Result], items: Iterable[Item | None], workers: Workers
) -> Generator[Result, None, None]:
    """Yield the task's result for each item, in order; a bounded number of items is read ahead.

    An item of None means that the next item is not available yet, so that available results can be yielded.

    Raises:
        WorkersLostError: workers are lost repeatedly.
        BaseException: the error of the task for the first item that fails.
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
    """Return the number of cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


class Shared(Generic[Value_co]):
    """A large object that tasks need: workers create it again instead of unpickling it.

    Each worker caches a few of these objects for later tasks.
    """

    def __init__(self, value: Value_co, make: Callable[[], Value_co] | None = None) -> None:
        """Hold an object; `make`, hashable and picklable, creates it in a worker. None pickles the object itself."""
        self._value: Value_co | None = value
        self._make = make

    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__ if self._make is None else {"_value": None, "_make": self._make}

    def get(self) -> Value_co:
        """Return the object.

        Raises:
            BaseException: the error of `make`.
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
    """A file or folder that workers read again and that must have the same content there."""

    name: Path
    """The path in messages."""
    place: Path
    """The absolute path."""
    digest: str
    """SHA-256 of the file, or of the weights in the folder."""

    @classmethod
    def at(cls, path: str | Path, digest: str) -> Self:
        """Return the file or folder at a path."""
        return cls(Path(path), Path(path).resolve(), digest)

    def require(self, digest: str | None) -> None:
        """Check the digest found in the worker.

        Raises:
            UserError: the digests differ.
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
    """Yield workers and end them afterwards, even during tasks if an exception is raised.

    Args:
        killed: the message if workers are killed repeatedly, most likely for lack of memory.
        processes: number of local processes; None for one per core, 1 for this process.
        scheduler: address of a Dask scheduler, whose workers replace local processes.
        threads: number of threads of each local process.
        tries: maximum number of attempts of a task whose process is killed.
        apart: start a separate process even if `processes` is 1, for libraries that would use more threads in this
            process.

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
    """This process, which runs each task when it is submitted."""

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
        raise UserError(f"{spelled('scheduler')}: needs Dask; pip install distributed") from error

    async def greet() -> None:
        async with rpc(address, connection_args=Security().get_connection_args("client")) as scheduler:
            await scheduler.identity()

    try:
        # A client would retry an invalid address for half a minute, and a server that is not a scheduler forever.
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
    """Silence a logger, because Dask logs a page of internals when the scheduler disappears."""
    logger = logging.getLogger(name)
    before = logger.level
    logger.setLevel(logging.CRITICAL + 1)
    try:
        yield
    finally:
        logger.setLevel(before)


class _Dask:
    """The workers of a Dask scheduler, whose number may change during the work."""

    def __init__(self, killed: str, client: Client, address: str) -> None:
        self._killed, self._client, self._address = killed, client, address
        # Not pure, because Dask would merge equal calls.
        self._executor = client.get_executor(pure=False)
        self._require_workers(_SECONDS_TO_CONNECT)

    @property
    def number(self) -> int:
        threads: dict[str, int] = self._client.nthreads()
        return max(1, sum(threads.values()))

    def _require_workers(self, seconds: float) -> None:
        """Wait until there are workers.

        Raises:
            WorkersLostError: there are no workers within `seconds`.
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
        """Wait for a result; fail if there are no workers, for which a Dask future would wait forever.

        Raises:
            WorkersLostError: there are no workers, each is killed, or the scheduler has disappeared.
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
    """The future result of a Dask worker."""

    future: Future[Any]
    workers: _Dask

    def done(self) -> bool:
        return self.future.done()

    def result(self) -> Any:
        return self.workers.result_of(self.future)

    def cancel(self) -> None:
        self.future.cancel()


class _AbsolutePathPickler(pickle.Pickler):
    """Makes every path absolute, because a Dask worker has another working directory."""

    def reducer_override(self, value: Any) -> Any:
        """Return how to pickle a path; leave everything else to the pickler."""
        return (type(value), (str(value.absolute()),)) if isinstance(value, Path) else NotImplemented


def _pickled(value: object) -> bytes:
    stream = io.BytesIO()
    _AbsolutePathPickler(stream, pickle.HIGHEST_PROTOCOL).dump(value)
    return stream.getvalue()


def _run_on_worker(message: bytes) -> Any:
    """Run a pickled task on a Dask worker.

    Raises:
        UserError: the task failed with an error for the user; the message names the worker.
    """
    from distributed import get_worker

    try:
        task, item = pickle.loads(message)
        return task(item)
    except Exception as error:
        if (sentence := sentence_of(error)) is None:
            raise
        # Error classes of other modules may have other arguments, so that unpickling fails.
        kind = next((kind for kind in type(error).__mro__ if kind.__module__ == UserError.__module__), UserError)
        raise kind(f"{sentence} (on the Dask worker {get_worker().address})") from error
