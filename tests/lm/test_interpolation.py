from __future__ import annotations

import numpy as np
import pytest

from phrasescore.lm.interpolation import best_weight, interpolate
from phrasescore.log_probs import perplexity


def test_interpolation() -> None:
    first, second = np.log([0.5, 0.1]), np.log([0.1, 0.3])
    assert np.exp(interpolate(first, second, 0.25)) == pytest.approx([0.2, 0.25])
    assert (interpolate(first, second, 1.0) == first).all()
    assert (interpolate(first, second, 0.0) == second).all()


def test_the_weight_is_the_best_one() -> None:
    rng = np.random.default_rng(2)
    first, second = np.log(rng.uniform(0.001, 1, (2, 500)))
    weight = best_weight(first, second)
    grid = np.linspace(0.01, 0.99, 981)
    found = [perplexity(-interpolate(first, second, w).mean()) for w in grid]
    assert weight == pytest.approx(grid[int(np.argmin(found))], abs=0.002)


def test_a_model_that_never_wins_gets_no_weight() -> None:
    good = np.log(np.full(50, 0.5))
    assert best_weight(good - 3, good) < 1e-4
    assert best_weight(good, good - 3) > 1 - 1e-4
