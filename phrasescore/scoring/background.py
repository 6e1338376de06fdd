"""Run the ends of a stream in threads, in order, with bounded queues: reading before, writing behind.

The middle, where the network computes, stays in the main thread: there OpenMP gives it all cores, and signals
interrupt it.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import contextmanager
from queue import Empty, Full, Queue
from typing import Generic, TypeVar

T = TypeVar("T")

_DEPTH = 2
_POLL_SECONDS = 0.1
_FAREWELL_SECONDS = 1.0
"""How long a thread may take to notice that nobody listens any more."""


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

    def receive(self, while_waiting: Callable[[], object] = lambda: None) -> T | _End:
        """Return the next item; an end, whatever waits, if `stopped` is set. What is called now and then may raise."""
        while not self.stopped.is_set():
            try:
                return self.get(timeout=_POLL_SECONDS)
            except Empty:
                while_waiting()
        return _End()


def read_ahead(items: Iterable[T], while_waiting: Callable[[], object] = lambda: None) -> Generator[T, None, None]:
    """Yield the items of an iterable that a thread of its own works through, a little ahead.

    An exception in the thread is raised here. Closing the generator stops the thread and waits for it, but not for
    input that does not come: a thread that waits for it, as standard input can make it, is left behind and ends with
    the process, or with the next item. `while_waiting` is called now and then while there is no item, and may raise.
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
        while not isinstance(item := channel.receive(while_waiting), _End):
            yield item
        if item.error is not None:
            raise item.error
    finally:
        channel.stopped.set()
        thread.join(_FAREWELL_SECONDS)


class Writing(Generic[T]):
    """A writer in a thread of its own; calling it hands over what is to be written."""

    def __init__(self, channel: _Channel[T]) -> None:
        self._channel = channel
        self.error: BaseException | None = None

    def __call__(self, item: T) -> None:
        """Hand over an item.

        Raises:
            BaseException: what the writer failed with.
        """
        self._channel.send(item)
        self.check()

    def check(self) -> None:
        """Raise what the writer failed with, if it did."""
        if self.error is not None:
            raise self.error


@contextmanager
def write_behind(write: Callable[[T], object]) -> Iterator[Writing[T]]:
    """Give what hands its argument to `write` in a thread of its own, in order.

    An exception in the thread is raised by the next call, by `check`, or at the end. If the body fails, what waits in
    the queue is not written, and a thread that waits for a pipe to be read is left behind; see `open_output`.
    """
    channel: _Channel[T] = _Channel()
    writing = Writing(channel)

    def work() -> None:
        try:
            while not isinstance(item := channel.receive(), _End):
                write(item)
        except BaseException as error:
            writing.error = error
            channel.stopped.set()

    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    try:
        yield writing
        channel.send(_End())
        thread.join()
    finally:
        channel.stopped.set()
        thread.join(_FAREWELL_SECONDS)
    writing.check()
