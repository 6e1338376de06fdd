from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest

from phrasescore.scoring.background import read_ahead


def test_items_come_in_order() -> None:
    assert list(read_ahead(item for item in read_ahead(range(100)) if item is not None)) == list(range(100))


def test_an_exception_comes_through() -> None:
    def failing() -> Iterator[int]:
        yield 1
        raise KeyError("here")

    items = read_ahead(failing())
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
    items = read_ahead(endless())
    assert next(items) == 1
    items.close()
    assert closed.is_set()
    assert threading.active_count() == before


def test_closing_does_not_wait_for_input_that_does_not_come() -> None:
    go_on, ended = threading.Event(), threading.Event()

    def silent() -> Iterator[int]:
        try:
            yield 1
            go_on.wait()
            yield 2
        finally:
            ended.set()

    items = read_ahead(silent())
    assert [next(items), next(items), next(items)] == [1, None, None]
    items.close()
    assert not ended.is_set()
    go_on.set()
    assert ended.wait(10)
