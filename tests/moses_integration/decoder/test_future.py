"""Future scores: the best score of the uncovered words."""

from __future__ import annotations

from types import SimpleNamespace
from typing import cast

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from moses_integration.decoder.translation_options import FutureScores, Options


def options_of(words: int, spans: dict[tuple[int, int], list[float]]) -> Options:
    """Return options with the given scores by span (first word, last word)."""
    options = SimpleNamespace(
        sentence=(b"w",) * words,
        span_start_S=np.array([start for start, _ in spans], np.int64),
        span_end_S=np.array([end for _, end in spans], np.int64),
        span_first_S=np.cumsum([0, *(len(scores) for scores in spans.values())]),
        future_O=np.array([score for scores in spans.values() for score in scores]),
    )
    return cast(Options, options)


@pytest.mark.parametrize(("whole", "best"), [(-5.0, -2.0), (-1.5, -1.5)])
@pytest.mark.parametrize("longest", [0, 1, 2])
def test_a_range_costs_what_its_best_option_or_its_best_split_does(longest: int, whole: float, best: float) -> None:
    future = FutureScores(options_of(2, {(0, 0): [-1.0, -3.0], (1, 1): [-1.0], (0, 1): [whole]}), longest)
    assert future(np.array([0, 1, 2]), np.array([2, 2, 2])).tolist() == [best, -1.0, 0.0]
    assert future(np.array([0, 1]), np.array([0, 1])).tolist() == [0.0, 0.0]
    if longest:
        assert future(np.array([0]), np.array([1])).tolist() == [-1.0]


@given(st.data(), st.integers(1, 7))
def test_the_best_sequence_of_spans_is_found_for_every_range(data: st.DataObject, words: int) -> None:
    scores = st.lists(st.floats(-9, 3), min_size=1, max_size=2)
    every = [(start, end) for start in range(words) for end in range(start, words)]
    spans = {(start, end): data.draw(scores) for start, end in every if start == end or data.draw(st.booleans())}
    future = FutureScores(options_of(words, spans), words)

    def best(start: int, end: int) -> float:
        if start == end:
            return 0.0
        firsts = [last for last in range(start, end) if (start, last) in spans]
        return max(max(spans[start, last]) + best(last + 1, end) for last in firsts)

    ranges = [(start, end) for start in range(words + 1) for end in range(start, words + 1)]
    found = future(*np.array(ranges).T)
    assert found.tolist() == pytest.approx([best(*one) for one in ranges])
