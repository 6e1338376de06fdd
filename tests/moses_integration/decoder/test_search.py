"""Array operations of the search."""

from __future__ import annotations

import random
import tempfile
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from moses_integration.decoder.declaration import load_model
from moses_integration.decoder.search import _MOST_BITS, Search
from moses_integration.decoder.settings import read_settings
from moses_integration.decoder.translation_options import FutureScores
from tests.moses_integration.decoder.searching import WEIGHTS, decode, key
from tests.moses_integration.decoder.small_system import Line, SmallSystem


def test_the_best_hypotheses_stay_however_large_the_weights_are() -> None:
    """The best hypotheses are kept for weights of any size.

    A total of 1e20 loses all other scores to rounding.
    """
    lines = [Line((b"a",), (b"A",), (0.5,)), Line((b"b",), (b"B",), (0.5,))]
    _, graph = decode(SmallSystem(lines, {**WEIGHTS, "W": [1e20]}), (b"a", b"b"))
    best = graph.best()
    assert best is not None
    assert set(best.words) == {b"A", b"B"}


@settings(max_examples=15)
@given(st.integers(0, 2**32))
def test_a_search_in_windows_equals_a_search_of_all_words(seed: int) -> None:
    draw = random.Random(seed)
    words = [b"a", b"b", b"c", b"d"]
    phrases = {tuple(draw.choices(words, k=length)) for length in (1, 1, 2, 2, 3, 4) for _ in range(4)}
    lines = [Line(phrase, (b"A",) * draw.randint(0, 3), (draw.uniform(0.01, 1),)) for phrase in sorted(phrases)]
    system = SmallSystem(lines, WEIGHTS, distortion_limit=draw.choice([0, 1, 2, 4, 6]))
    sentence = tuple(draw.choices(words, k=draw.randint(1, 40)))
    with tempfile.TemporaryDirectory() as folder:
        ini = system.write(Path(folder))
        limits, model = read_settings(ini), load_model(ini, [sentence], read_settings(ini))
    search, whole = Search(model, limits, sentence), Search(model, limits, sentence)
    whole._reach = whole._width = len(sentence)
    whole._bits = np.dtype(np.object_)
    whole._future = FutureScores(whole._options, len(sentence))
    assert search._width <= max(2 * limits.distortion_limit, limits.distortion_limit + 4)
    found, expected = (one.run(keep_arcs=True).n_best(50, distinct=False) for one in (search, whole))
    assert [key(one) for one in found] == [key(one) for one in expected]
    assert [one.score for one in found] == pytest.approx([one.score for one in expected], abs=1e-9)


@settings(max_examples=15)
@given(st.integers(0, 2**32))
def test_dropped_moves_have_no_popped_candidate(seed: int) -> None:
    draw = random.Random(seed)
    words = [b"a", b"b", b"c"]
    phrases = {tuple(draw.choices(words, k=length)) for length in (1, 1, 1, 2, 2, 3)}
    # Few probabilities, so that many candidates rank equally.
    lines = [Line(phrase, (b"%d" % i,), (draw.choice([0.1, 0.5]),)) for phrase in sorted(phrases) for i in range(7)]
    sections = {"cube-pruning-pop-limit": str(draw.randint(1, 40))}
    system = SmallSystem(lines, WEIGHTS, distortion_limit=draw.choice([-1, 2]), settings=sections)
    sentence = tuple(draw.choices(words, k=draw.randint(1, 8)))
    with tempfile.TemporaryDirectory() as folder:
        ini = system.write(Path(folder))
        limits, model = read_settings(ini), load_model(ini, [sentence], read_settings(ini))
    search, whole = Search(model, limits, sentence), Search(model, limits, sentence)
    whole._promising = lambda moves: moves  # type: ignore[method-assign]
    found, expected = (one.run(keep_arcs=True)._all for one in (search, whole))
    assert all(np.array_equal(one, other) for one, other in zip(found, expected, strict=True))


def test_a_window_may_be_wider_than_a_machine_word() -> None:
    sentence = (b"a", b"b") * _MOST_BITS
    lines = [Line((b"a",), (b"A",), (0.5,)), Line((b"b",), (b"B",), (0.5,))]
    _, graph = decode(SmallSystem(lines, WEIGHTS), sentence)
    best = graph.best()
    assert best is not None
    assert sorted(step.start for step in best.steps) == list(range(len(sentence)))


def test_a_window_is_no_wider_in_a_long_sentence() -> None:
    lines = [Line((b"a",), (b"A",), (0.5,)), Line((b"a", b"a"), (b"B",), (0.5,))]
    system = SmallSystem(lines, WEIGHTS, distortion_limit=2)
    with tempfile.TemporaryDirectory() as folder:
        ini = system.write(Path(folder))
        sentence = (b"a",) * 300
        search = Search(load_model(ini, [sentence], read_settings(ini)), read_settings(ini), sentence)
    assert search._width == 4
    assert len(search._window(150).span_s) == 4 + 3
