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
from moses_integration.decoder.search import Search, _distinct
from moses_integration.decoder.settings import read_settings
from moses_integration.decoder.translation_options import FutureScores
from tests.moses_integration.decoder.searching import WEIGHTS, decode, key
from tests.moses_integration.decoder.small_system import Line, SmallSystem


@pytest.mark.parametrize("words", [1, 8, 13, 64, 65, 100])
def test_coverages_differ_if_any_word_differs(words: int) -> None:
    rng = np.random.default_rng(words)
    kinds_Kn = rng.random((20, words)) < 0.5
    # Each differs from the first in one word.
    kinds_Kn = np.concatenate([kinds_Kn, kinds_Kn[0] ^ np.eye(words, dtype=bool)])
    covered_Pn = kinds_Kn[rng.integers(0, len(kinds_Kn), 300)]
    covered_Cn, coverage_P = _distinct(covered_Pn)
    assert (covered_Cn[coverage_P] == covered_Pn).all()
    assert len(covered_Cn) == len({row.tobytes() for row in covered_Pn})


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
    whole._future = FutureScores(whole._options, len(sentence))
    assert search._width <= max(2 * limits.distortion_limit, limits.distortion_limit + 4)
    found, expected = (one.run(keep_arcs=True).n_best(50, distinct=False) for one in (search, whole))
    assert [key(one) for one in found] == [key(one) for one in expected]
    assert [one.score for one in found] == pytest.approx([one.score for one in expected], abs=1e-9)


def test_a_window_is_no_wider_in_a_long_sentence() -> None:
    lines = [Line((b"a",), (b"A",), (0.5,)), Line((b"a", b"a"), (b"B",), (0.5,))]
    system = SmallSystem(lines, WEIGHTS, distortion_limit=2)
    with tempfile.TemporaryDirectory() as folder:
        ini = system.write(Path(folder))
        sentence = (b"a",) * 300
        search = Search(load_model(ini, [sentence], read_settings(ini)), read_settings(ini), sentence)
    stack = search._empty_stack()
    assert stack.covered_Cw.shape == (1, 4)
    assert len(search._spans_in_window(150)) == 4 + 3
