"""Read a stream ahead in a thread.

The main thread processes the items, because signals interrupt only the main thread.
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
"""Maximum time that a thread may take to notice that its reader has stopped."""


class _End:
    """The last item of a queue: the end or an error."""

    def __init__(self, error: BaseException | None = None) -> None:
        self.error = error


def read_ahead(items: Iterable[T]) -> Generator[T | None, None, None]:
    """Yield the items of an iterable, which a thread reads slightly ahead.

    While no item is available it yields None periodically. An exception in the thread is raised here. Closing the
    generator stops the thread and waits for it, but not for blocked input: a thread that waits for standard input, for
    example, is abandoned and ends with the process, or with the next item.
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
