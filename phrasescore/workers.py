"""Run one task for many items on worker processes or machines, with results in the order of the items.

Workers are processes of this machine or those of a Dask scheduler; None stands for this process alone. Tasks, items and
results are picklable. Each worker receives a task once, however many items it processes. The task of a killed worker is
run again.

The pools of `concurrent.futures`, `multiprocessing` and loky do not survive a process that the system kills for lack of
memory while it sends a result. Here each process has its own pipe, which closes with the process.
"""

from __future__ import annotations

import io
import os
import pickle
import signal
import sys
import threading
import traceback
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator
from concurrent.futures import CancelledError, Future, ThreadPoolExecutor
from contextlib import closing, contextmanager, suppress
from functools import lru_cache
from itertools import chain, count, islice
from multiprocessing import forkserver, get_context, parent_process, resource_tracker
from multiprocessing.connection import Connection, wait
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

from phrasescore.errors import UserError, WorkersLostError, are_options_flags, options_spelled_as_flags

if TYPE_CHECKING:
    from multiprocessing.context import ForkServerContext, SpawnContext

    from phrasescore.dask_workers import DaskWorkers

Item = TypeVar("Item")
Result = TypeVar("Result")
Workers: TypeAlias = "ProcessPool | DaskWorkers | None"

FEW_ITEMS = 2
"""Items that take less time than starting worker processes."""
_TASKS_AHEAD = 2
"""Queued items per worker: enough to keep it busy, few enough for memory."""
_UNGUARDED = (
    "no worker process could start, because each imports the script that called it; make the script a file and put its "
    'code under `if __name__ == "__main__":`, or use one process'
)


def map_ordered(
    task: Callable[[Item], Result], items: Iterable[Item], workers: Workers
) -> Generator[Result, None, None]:
    """Yield the task's result for each item, in order; a bounded number of items is read ahead."""
    if workers is None:
        yield from map(task, items)
        return
    waiting: deque[Future[Any]] = deque()
    try:
        for item in items:
            waiting.append(workers.submit(task, item))
            while waiting and (len(waiting) >= _TASKS_AHEAD * workers.number or waiting[0].done()):
                yield workers.result(waiting.popleft())
        while waiting:
            yield workers.result(waiting.popleft())
    finally:
        for future in waiting:
            future.cancel()


def run_ordered(
    task: Callable[[Item], Result],
    items: Iterable[Item],
    doing: str,
    processes: int | None = None,
    scheduler: str | None = None,
) -> Generator[Result, None, None]:
    """Yield the results of `map_ordered`, from new workers of `start_workers`; this process alone runs a few items."""
    items = iter(items)
    first = list(islice(items, FEW_ITEMS + 1))
    if scheduler is None and len(first) <= FEW_ITEMS:
        processes = 1
    with start_workers(doing, processes, scheduler) as workers:
        yield from map_ordered(task, chain(first, items), workers)


def available_cores() -> int:
    """Return the number of cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


@contextmanager
def start_workers(doing: str, processes: int | None = None, scheduler: str | None = None) -> Iterator[Workers]:
    """Yield workers, None for this process alone, and end them afterwards, even during tasks after an exception.

    `doing` begins the error message if workers are killed repeatedly, as in `decoding`. `processes` is None for one
    process per core. The workers of a Dask scheduler replace local processes.
    """
    killed = f"{doing}: a process was killed, probably because memory ran out; use fewer processes"
    if scheduler is not None:
        from phrasescore.dask_workers import dask_workers

        with dask_workers(killed, scheduler) as workers:
            yield workers
    elif (number := processes or available_cores()) == 1:
        yield None
    else:
        with closing(ProcessPool(killed, number)) as pool:
            yield pool


class ProcessPool:
    """Processes, each driven by a thread that sends it one item at a time and waits for the result.

    The processes end with their parent and ignore Ctrl-C, which the parent handles by ending them. They are forked by
    a server without threads, which imports PyTorch once for all of them if the parent has imported it. Forked by the
    parent, they might inherit a locked lock from a library's thread.

    The server is the one of `multiprocessing`: processes that the calling program forks by it later also ignore Ctrl-C
    and use one thread, unless the program started the server first.
    """

    def __init__(self, killed: str, number: int, threads: int = 1, tries: int = 3) -> None:
        """Prepare `number` processes of `threads` threads each; a task may kill `tries` processes."""
        self.number = number
        self._killed, self._cores, self._tries = killed, threads, tries
        # Threads do not inherit context variables.
        self._as_flags = are_options_flags()
        self._threads = ThreadPoolExecutor(number, initializer=self._begin_thread)
        self._own = threading.local()
        self._numbers = count()
        self._processes = dict[int, _Process]()
        self._lock = threading.Lock()
        self._have_begun = self._is_closed = False
        # The resource tracker unblocks signals when it starts, so start it before the threads block any.
        resource_tracker.ensure_running()

    def submit(self, task: Callable[[Any], Any], item: Any) -> Future[Any]:
        return self._threads.submit(self._run, task, item)

    def submit_to_each(self, task: Callable[[Any], Any], item: Any) -> list[Future[Any]]:
        """Submit an item to every process; the pool must be idle."""
        # A thread that waits here leaves the other items to the other threads.
        barrier = threading.Barrier(self.number)

        def run() -> Any:
            barrier.wait()
            return self._run(task, item)

        return [self._threads.submit(run) for _ in range(self.number)]

    def result(self, future: Future[Any]) -> Any:
        return future.result()

    def close(self) -> None:
        """Kill the processes without waiting for tasks, which may take minutes."""
        with self._lock:
            self._is_closed = True
            for process in self._processes.values():
                process.process.kill()
        self._threads.shutdown(cancel_futures=True)
        for number in [*self._processes]:
            self._drop(number)

    def _begin_thread(self) -> None:
        self._own.number = next(self._numbers)
        # The processes that this thread starts inherit this, and so do those of the fork server.
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})

    def _run(self, task: Callable[[Any], Any], item: Any) -> Any:
        number: int = self._own.number
        for _ in range(self._tries):
            process = self._processes.get(number) or self._start(number)
            messages = b"" if process.task is task else pickled(task), pickled(item)
            try:
                if not process.has_begun:
                    process.pipe.recv_bytes()
                    process.has_begun = self._have_begun = True
                for message in messages:
                    process.pipe.send_bytes(message)
                process.task = task
                outcome = process.pipe.recv_bytes()
            except (EOFError, OSError, MemoryError) as error:
                code = self._drop(number)
                if self._is_closed:
                    raise CancelledError from error
                # A script without the guard would start processes while a process imports it, which Python forbids.
                if not self._have_begun and code >= 0:
                    raise UserError(_UNGUARDED) from error
                continue
            value, failure = pickle.loads(outcome)
            if failure is not None:
                raise failure
            return value
        raise WorkersLostError(self._killed)

    def _start(self, number: int) -> _Process:
        with self._lock:
            if self._is_closed:
                raise CancelledError
            self._processes[number] = _Process(number, self._cores, self._as_flags)
            return self._processes[number]

    def _drop(self, number: int) -> int:
        """End a process and return its exit code."""
        with self._lock:
            return self._processes.pop(number).end()


def _context() -> ForkServerContext | SpawnContext:
    """Return a context with a running fork server, or one that spawns, where no fork server can run."""
    if sys.platform != "linux":
        return get_context("spawn")
    context = get_context("forkserver")
    context.set_forkserver_preload(["torch"] if "torch" in sys.modules else [])
    threads = os.environ.get("OMP_NUM_THREADS")
    # Other threads of the server do not survive a fork.
    os.environ["OMP_NUM_THREADS"] = "1"
    try:
        forkserver.ensure_running()
    except OSError:
        # Before Python 3.14, a long TMPDIR is too long for the server's socket.
        return get_context("spawn")
    finally:
        if threads is None:
            del os.environ["OMP_NUM_THREADS"]
        else:
            os.environ["OMP_NUM_THREADS"] = threads
    return context


class _Process:
    def __init__(self, number: int, threads: int, as_flags: bool) -> None:
        context = _context()
        self.pipe, theirs = context.Pipe()
        self.task: Callable[[Any], Any] | None = None
        self.has_begun = False
        arguments = theirs, number, threads, dict(os.environ), as_flags
        # Python kills daemons when it exits.
        self.process = context.Process(target=_serve, args=arguments, daemon=True)
        self.process.start()
        theirs.close()

    def end(self) -> int:
        """Kill the process and return its exit code, which is its own if it has exited already."""
        self.pipe.close()
        self.process.kill()
        self.process.join()
        return self.process.exitcode or 0


# In the worker processes

_number: int | None = None


def process_number() -> int | None:
    """Return the index of this worker process, or of the killed one that it replaces; None in the main process."""
    return _number


def _serve(pipe: Connection, number: int, threads: int, environment: dict[str, str], as_flags: bool) -> None:
    """Process tasks; `environment` is the parent's, which may differ from that of the fork server."""
    global _number
    _number = number
    # The calling program may have started the fork server, without this.
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    os.environ.clear()
    # Libraries read the number of threads when they are imported, which happens when a task needs them.
    os.environ.update(environment, OMP_NUM_THREADS=str(threads))
    if (torch := sys.modules.get("torch")) is not None:
        torch.set_num_threads(threads)
    threading.Thread(target=_end_with_parent, daemon=True).start()
    task = b""
    with options_spelled_as_flags(as_flags), suppress(EOFError, ConnectionError):
        pipe.send_bytes(b"")
        while True:
            # An empty message stands for the task before.
            task = pipe.recv_bytes() or task
            pipe.send_bytes(_outcome(task, pipe.recv_bytes()))


def _end_with_parent() -> None:
    """Wait for the parent to exit, and then exit even during a task."""
    parent = parent_process()
    assert parent is not None
    wait([parent.sentinel])
    os._exit(1)


def _outcome(task: bytes, item: bytes) -> bytes:
    try:
        return pickle.dumps((run_pickled(task, item), None), pickle.HIGHEST_PROTOCOL)
    except BaseException as error:
        return pickle.dumps((None, _sendable(error)))


def _sendable(error: BaseException) -> BaseException:
    """Return an error that pickle can transfer, with its traceback as a note, which pickle would drop."""
    where = "".join(traceback.format_exception(error))
    is_for_user = isinstance(error, UserError)
    try:
        is_whole = str(pickle.loads(pickle.dumps(error))) == str(error)
    except Exception:
        is_whole = False
    if not is_whole:
        return UserError(str(error)) if is_for_user else RuntimeError(where)
    if not is_for_user:
        error.add_note(where)
    return error


def run_pickled(task: bytes, item: bytes) -> Any:
    """Run a pickled task for a pickled item."""
    return _task(task)(pickle.loads(item))


@lru_cache(maxsize=1)
def _task(message: bytes) -> Callable[[Any], Any]:
    task: Callable[[Any], Any] = pickle.loads(message)
    return task


# Pickling


class Reloadable:
    """A large object that each worker loads again from its files, once for all tasks, instead of unpickling it."""

    recipe: Callable[[], Any] | None = None
    """Loads the object; hashable and picklable. None if the object itself is pickled."""


@lru_cache(maxsize=4)
def _reload(recipe: Callable[[], Any]) -> Any:
    return recipe()


class WorkerPickler(pickle.Pickler):
    """Pickles tasks and items."""

    def reducer_override(self, value: Any) -> Any:
        if isinstance(value, Reloadable) and value.recipe is not None:
            return _reload, (value.recipe,)
        return NotImplemented


def pickled(value: object, pickler: type[WorkerPickler] = WorkerPickler) -> bytes:
    """Return a pickled task or item."""
    stream = io.BytesIO()
    pickler(stream, pickle.HIGHEST_PROTOCOL).dump(value)
    return stream.getvalue()
