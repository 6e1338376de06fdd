from __future__ import annotations

from unittest.mock import patch

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from phrasescore import phrases
from phrasescore.phrases import Phrases, offsets_of, ranges

lists_of_ids = st.lists(st.lists(st.integers(0, 9), max_size=5), max_size=8)


@given(lists_of_ids)
def test_phrases_from_lists(lists: list[list[int]]) -> None:
    made = Phrases.from_lists(lists)
    assert len(made) == len(lists)
    assert made.lengths.tolist() == [len(ids) for ids in lists]
    found = [made.ids[a:b].tolist() for a, b in zip(made.offsets, made.offsets[1:], strict=False)]
    assert found == lists


@given(lists_of_ids.filter(bool), st.data())
def test_take(lists: list[list[int]], data: st.DataObject) -> None:
    indices = data.draw(st.lists(st.integers(0, len(lists) - 1), max_size=6))
    taken = Phrases.from_lists(lists).take(np.array(indices, np.int64))
    expected = Phrases.from_lists(lists[i] for i in indices)
    assert taken.ids.tolist() == expected.ids.tolist()
    assert taken.offsets.tolist() == expected.offsets.tolist()


@given(lists_of_ids, st.integers(1, 5))
def test_counts(lists: list[list[int]], at_once: int) -> None:
    with patch.object(phrases, "_COUNTED_AT_ONCE", at_once):
        counts = Phrases.from_lists(lists).counts(10)
    assert counts.tolist() == [sum(ids.count(id_) for ids in lists) for id_ in range(10)]


@given(lists_of_ids)
def test_end_symbols(lists: list[list[int]]) -> None:
    closed = Phrases.from_lists(lists).with_end(1)
    expected = Phrases.from_lists([*ids, 1] for ids in lists)
    assert closed.ids.tolist() == expected.ids.tolist()
    assert closed.offsets.tolist() == expected.offsets.tolist()


def test_ranges() -> None:
    assert ranges(np.array([5, 0, 9]), np.array([2, 0, 3])).tolist() == [5, 6, 9, 10, 11]
    assert offsets_of(np.array([2, 0, 3])).tolist() == [0, 2, 2, 5]


def test_where() -> None:
    phrases = Phrases.from_lists([[5, 6], [], [7], [8, 9]])
    taken = phrases.where(np.array([True, True, False, True]))
    assert (taken.ids.tolist(), taken.offsets.tolist()) == ([5, 6, 8, 9], [0, 2, 2, 4])
