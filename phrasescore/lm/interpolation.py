"""Linear interpolation of two language models."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Scores = NDArray[np.float64]

_STEPS = 200
_CLOSE = 1e-6


def interpolate(first: Scores, second: Scores, weight: float) -> Scores:
    """Return ln(weight * p_1 + (1 - weight) * p_2) of each word."""
    if weight in (0.0, 1.0):
        return first if weight else second
    mixed: Scores = np.logaddexp(np.log(weight) + first, np.log1p(-weight) + second)
    return mixed


def best_weight(first: Scores, second: Scores) -> float:
    """Return the weight of the first model that maximises the likelihood of a text, by expectation maximisation.

    Each step sets the weight to the mean share of the first model in the probability of a word. The likelihood has one
    maximum. Use another text than the one whose perplexity is reported.
    """
    weight = 0.5
    for _ in range(_STEPS):
        before, weight = weight, float(np.exp(np.log(weight) + first - interpolate(first, second, weight)).mean())
        if abs(weight - before) < _CLOSE:
            break
    return weight
