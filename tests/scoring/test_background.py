from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest

from phrasescore.scoring.background import in_background


def test_items_come_in_order() -> None:
    assert list(in_background(in_background(range(100)))) == list(range(100))


def test_an_exception_comes_through() -> None:
    def failing() -> Iterator[int]:
        yield 1
        raise KeyError("here")

    items = in_background(failing())
    assert next(items) == 1
    with pytest.raises(KeyError, match="here"):
        next(items)


def test_closing_stops_the_thread_and_closes_the_source() -> None:
    closed = threading.Event()

    def endless() -> Iterator[int]:
        try:
            while True:
                yield 1
        finally:
            closed.set()

    before = threading.active_count()
    items = in_background(endless())
    assert next(items) == 1
    items.close()
    assert closed.is_set()
    assert threading.active_count() == before
