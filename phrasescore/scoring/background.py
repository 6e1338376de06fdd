"""Run the ends of a stream in threads, in order, with bounded queues: reading before, writing behind.

The middle, where the network computes, stays in the main thread: there OpenMP gives it all cores, and signals
interrupt it.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import contextmanager
from queue import Empty, Full, Queue
from typing import TypeVar

T = TypeVar("T")

_DEPTH = 2
_POLL_SECONDS = 0.1


class _End:
    """The last thing in a queue: how its stage ended."""

    def __init__(self, error: BaseException | None = None) -> None:
        self.error = error


class _Channel(Queue["T | _End"]):
    """A bounded queue whose two ends stop waiting for each other once `stopped` is set."""

    def __init__(self) -> None:
        super().__init__(_DEPTH)
        self.stopped = threading.Event()

    def send(self, item: T | _End) -> None:
        """Put an item, unless the other end has gone."""
        while not self.stopped.is_set():
            try:
                self.put(item, timeout=_POLL_SECONDS)
                return
            except Full:
                continue

    def receive(self) -> T | _End:
        """Return the next item; an end if the other end has gone."""
        while True:
            try:
                return self.get(timeout=_POLL_SECONDS)
            except Empty:
                if self.stopped.is_set():
                    return _End()


def read_ahead(items: Iterable[T]) -> Generator[T, None, None]:
    """Yield the items of an iterable that a thread of its own works through, a little ahead.

    An exception in the thread is raised here. Closing the generator stops the thread and waits for it.
    """
    channel: _Channel[T] = _Channel()

    def work() -> None:
        iterator = iter(items)
        try:
            for item in iterator:
                channel.send(item)
                if channel.stopped.is_set():
                    break
            channel.send(_End())
        except BaseException as error:
            channel.send(_End(error))
        finally:
            if isinstance(iterator, Generator):
                iterator.close()

    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    try:
        while not isinstance(item := channel.receive(), _End):
            yield item
        if item.error is not None:
            raise item.error
    finally:
        channel.stopped.set()
        thread.join()


@contextmanager
def write_behind(write: Callable[[T], object]) -> Iterator[Callable[[T], None]]:
    """Give a function that hands its argument to `write` in a thread of its own, in order.

    An exception in the thread is raised by the next call, or at the end. If the body fails, what waits in the
    queue is not written.
    """
    channel: _Channel[T] = _Channel()
    failed: list[BaseException] = []

    def work() -> None:
        try:
            while not isinstance(item := channel.receive(), _End):
                write(item)
        except BaseException as error:
            failed.append(error)
            channel.stopped.set()

    def hand_over(item: T) -> None:
        channel.send(item)
        if failed:
            raise failed[0]

    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    try:
        yield hand_over
        channel.send(_End())
        thread.join()
    finally:
        channel.stopped.set()
        thread.join()
    if failed:
        raise failed[0]
