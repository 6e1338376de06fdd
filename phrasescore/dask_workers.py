"""The workers of a Dask scheduler."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from concurrent.futures import CancelledError, Future, wait
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from phrasescore.errors import (
    UserError,
    WorkersLostError,
    are_options_flags,
    arg_name,
    options_spelled_as_flags,
    sentence_of,
)
from phrasescore.workers import WorkerPickler, pickled, run_pickled

if TYPE_CHECKING:
    from distributed import Client

_SECONDS_TO_CONNECT = 20
_SECONDS_WITHOUT_WORKERS = 600
"""How long to wait for workers of a scheduler that has none, because workers may still be starting."""
_SECONDS_BETWEEN_CHECKS = 10


@contextmanager
def dask_workers(killed: str, address: str) -> Iterator[DaskWorkers]:
    """Yield the workers of a scheduler; see `start_workers`."""
    try:
        from distributed import Client
        from distributed.core import rpc
        from distributed.security import Security
        from distributed.utils import LoopRunner
    except ImportError as error:
        raise UserError(f"{arg_name('scheduler')}: needs Dask; pip install distributed") from error

    async def greet() -> None:
        async with rpc(address, connection_args=Security().get_connection_args("client")) as scheduler:
            await scheduler.identity()

    try:
        # A client would wait for a server that is not a scheduler forever.
        LoopRunner().run_sync(greet, callback_timeout=_SECONDS_TO_CONNECT)
        client = Client(address, timeout=_SECONDS_TO_CONNECT, set_as_default=False)
    except (OSError, ValueError, TimeoutError) as error:
        raise UserError(
            f"{address}: no Dask scheduler answers there; start one by `dask scheduler`, or check the address"
        ) from error
    # Dask logs a page of internals when the scheduler disappears.
    logger = logging.getLogger("distributed.client")
    level = logger.level
    logger.setLevel(logging.CRITICAL + 1)
    try:
        with client:
            yield DaskWorkers(killed, client, address)
    finally:
        logger.setLevel(level)


class DaskWorkers:
    """The workers of a Dask scheduler, whose number may change during the work."""

    def __init__(self, killed: str, client: Client, address: str) -> None:
        self._killed, self._client, self._address = killed, client, address
        self._as_flags = are_options_flags()
        # Not pure, because Dask would merge equal calls.
        self._executor = client.get_executor(pure=False)
        self._task: Callable[[Any], Any] | None = None
        self._message: Any = None
        """The pickled task as a Dask future."""
        self._require_workers(_SECONDS_TO_CONNECT)

    @property
    def number(self) -> int:
        """The number of threads of all workers."""
        threads: dict[str, int] = self._client.nthreads()
        return max(1, sum(threads.values()))

    def _require_workers(self, seconds: float) -> None:
        try:
            self._client.wait_for_workers(1, timeout=seconds)
        except TimeoutError as error:
            raise WorkersLostError(
                f"{self._address}: the scheduler has no workers; start some by "
                f"`dask worker {self._address} --nthreads 1`"
            ) from error

    def submit(self, task: Callable[[Any], Any], item: Any) -> Future[Any]:
        import dask

        if task is not self._task:
            # A result of a task, unlike scattered data, survives the loss of the workers that hold it.
            with dask.config.set({"distributed.admin.large-graph-warning-threshold": "1TB"}):
                message = pickled(task, _AbsolutePathPickler)
                self._message, self._task = self._client.submit(bytes, message, pure=False), task
        future: Future[Any] = self._executor.submit(
            _run_on_worker, self._message, pickled(item, _AbsolutePathPickler), self._as_flags
        )
        return future

    def result(self, future: Future[Any]) -> Any:
        """Wait for a result; fail if there are no workers, for which a Dask future would wait forever."""
        from distributed import KilledWorker
        from distributed.comm.core import CommClosedError

        try:
            while not wait([future], _SECONDS_BETWEEN_CHECKS).done:
                self._require_workers(_SECONDS_WITHOUT_WORKERS)
            return future.result()
        except KilledWorker as error:
            raise WorkersLostError(self._killed) from error
        except (CancelledError, CommClosedError) as error:
            raise WorkersLostError(
                f"{self._address}: the scheduler has gone; start it and its workers again"
            ) from error


class _AbsolutePathPickler(WorkerPickler):
    """Makes every path absolute, because a Dask worker has another working directory."""

    def reducer_override(self, value: Any) -> Any:
        return (type(value), (str(value.absolute()),)) if isinstance(value, Path) else super().reducer_override(value)


def _run_on_worker(task: bytes, item: bytes, as_flags: bool) -> Any:
    """Run a pickled task on a Dask worker; the message of an error for the user names the worker."""
    from distributed import get_worker

    try:
        with options_spelled_as_flags(as_flags):
            return run_pickled(task, item)
    except Exception as error:
        if (sentence := sentence_of(error)) is None:
            raise
        # Error classes of other modules may have other arguments, so that unpickling fails.
        kind = next((kind for kind in type(error).__mro__ if kind.__module__ == UserError.__module__), UserError)
        raise kind(f"{sentence} (on the Dask worker {get_worker().address})") from error
