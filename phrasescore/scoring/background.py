"""Run the stages of a stream in threads, in order, with bounded queues between them."""

from __future__ import annotations

import threading
from collections.abc import Generator, Iterable
from queue import Empty, Full, Queue
from typing import TypeVar

T = TypeVar("T")

_DEPTH = 2
_POLL_SECONDS = 0.1


class _End:
    """The last thing in the queue: how the stage ended."""

    def __init__(self, error: BaseException | None) -> None:
        self.error = error


def in_background(items: Iterable[T]) -> Generator[T, None, None]:
    """Yield the items of an iterable that a thread of its own works through, a little ahead.

    An exception in the thread is raised here. Closing the generator stops the thread and waits for it.
    """
    queue: Queue[T | _End] = Queue(_DEPTH)
    stopped = threading.Event()

    def put(item: T | _End) -> None:
        while not stopped.is_set():
            try:
                queue.put(item, timeout=_POLL_SECONDS)
                return
            except Full:
                continue

    def work() -> None:
        iterator = iter(items)
        try:
            for item in iterator:
                put(item)
                if stopped.is_set():
                    break
            put(_End(None))
        except BaseException as error:
            put(_End(error))
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
                continue
            if isinstance(item, _End):
                if item.error is not None:
                    raise item.error
                return
            yield item
    finally:
        stopped.set()
        thread.join()
