"""Read a stream ahead in a thread.

What is made of it stays in the main thread, where signals interrupt it.
"""

from __future__ import annotations

import threading
from collections.abc import Generator, Iterable, Iterator
from contextlib import suppress
from queue import Empty, Full, Queue
from typing import TypeVar

T = TypeVar("T")

_DEPTH = 2
_POLL_SECONDS = 0.1
_FAREWELL_SECONDS = 1.0
"""How long a thread may take to notice that nobody listens any more."""


class _End:
    """The last thing in a queue: how its stage ended."""

    def __init__(self, error: BaseException | None = None) -> None:
        self.error = error


def read_ahead(items: Iterable[T]) -> Generator[T | None, None, None]:
    """Yield the items of an iterable that a thread of its own works through, a little ahead.

    While there is no item it yields None now and then. An exception in the thread is raised here. Closing the generator
    stops the thread and waits for it, but not for input that does not come: a thread that waits for it, as standard
    input can make it, is left behind and ends with the process, or with the next item.
    """
    queue: Queue[T | _End] = Queue(_DEPTH)
    stopped = threading.Event()

    def send(item: T | _End) -> None:
        while not stopped.is_set():
            with suppress(Full):
                queue.put(item, timeout=_POLL_SECONDS)
                return

    def work() -> None:
        iterator: Iterator[T] | None = None
        try:
            iterator = iter(items)
            for item in iterator:
                send(item)
                if stopped.is_set():
                    break
            send(_End())
        except BaseException as error:
            send(_End(error))
        finally:
            if isinstance(iterator, Generator):
                iterator.close()

    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    try:
        while True:
            try:
                item = queue.get(timeout=_POLL_SECONDS)
            except Empty:
                yield None
                continue
            if isinstance(item, _End):
                break
            yield item
        if item.error is not None:
            raise item.error
    finally:
        stopped.set()
        thread.join(_FAREWELL_SECONDS)
