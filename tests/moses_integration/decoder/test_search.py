"""What the search computes with arrays."""

from __future__ import annotations

import numpy as np
import pytest

from moses_integration.decoder.search import _distinct
from tests.moses_integration.decoder.searching import WEIGHTS, decode
from tests.moses_integration.decoder.small_system import Line, SmallSystem


@pytest.mark.parametrize("words", [1, 8, 13, 64, 65, 100])
def test_coverages_are_told_apart_by_every_word(words: int) -> None:
    rng = np.random.default_rng(words)
    kinds_Kn = rng.random((20, words)) < 0.5
    # Each differs from the first in one word.
    kinds_Kn = np.concatenate([kinds_Kn, kinds_Kn[0] ^ np.eye(words, dtype=bool)])
    covered_Pn = kinds_Kn[rng.integers(0, len(kinds_Kn), 300)]
    covered_Cn, coverage_P = _distinct(covered_Pn)
    assert (covered_Cn[coverage_P] == covered_Pn).all()
    assert len(covered_Cn) == len({row.tobytes() for row in covered_Pn})


def test_the_best_hypotheses_stay_however_large_the_weights_are() -> None:
    """Beside a total of 1e20 all else is lost to rounding, but not the translation."""
    lines = [Line((b"a",), (b"A",), (0.5,)), Line((b"b",), (b"B",), (0.5,))]
    _, graph = decode(SmallSystem(lines, {**WEIGHTS, "W": [1e20]}), (b"a", b"b"))
    best = graph.best()
    assert best is not None
    assert set(best.words) == {b"A", b"B"}
