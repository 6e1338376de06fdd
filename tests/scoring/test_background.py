from __future__ import annotations

import threading
from collections import deque
from collections.abc import Iterator

import pytest

from phrasescore.scoring.background import read_ahead, write_behind


def test_items_come_in_order() -> None:
    assert list(read_ahead(read_ahead(range(100)))) == list(range(100))


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
    assert next(items) == 1
    items.close()
    assert not ended.is_set()
    go_on.set()
    assert ended.wait(10)


def test_what_is_handed_over_is_written_in_order() -> None:
    written: list[int] = []
    with write_behind(written.append) as hand_over:
        for item in range(50):
            hand_over(item)
    assert written == list(range(50))


def test_an_exception_of_the_writer_comes_through() -> None:
    def fail(item: int) -> None:
        raise OSError("disk")

    with pytest.raises(OSError, match="disk"), write_behind(fail) as hand_over:
        deque(map(hand_over, range(1000)))
    with pytest.raises(OSError, match="disk"), write_behind(fail) as hand_over:
        hand_over(1)


def test_nothing_is_written_after_a_failure() -> None:
    before = threading.active_count()
    with pytest.raises(KeyError), write_behind(lambda item: None):
        raise KeyError("body")
    assert threading.active_count() == before


def test_what_waits_when_the_body_fails_is_not_written(monkeypatch: pytest.MonkeyPatch) -> None:
    is_joined, written = threading.Event(), list[int]()
    join = threading.Thread.join

    def joined(thread: threading.Thread, timeout: float | None = None) -> None:
        is_joined.set()
        join(thread, timeout)

    def write(item: int) -> None:
        is_joined.wait(10)
        written.append(item)

    monkeypatch.setattr(threading.Thread, "join", joined)
    with pytest.raises(ZeroDivisionError), write_behind(write) as hand_over:
        deque(map(hand_over, (12 // left for left in (3, 2, 1, 0))))
    # The one that was being written.
    assert written == [4]
