"""What the NumPy references of all networks share.

Nothing here comes from `phrasescore`. Every matrix is [outputs, inputs], so that `W @ x` is the equations' W x.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Vector = NDArray[np.float64]
Weights = dict[str, NDArray[np.float64]]
"""The weights by name; an optional one is absent if the network has none."""


def sigma(x: Vector) -> Vector:
    """The logistic sigmoid 1 / (1 + e^-x), written as e^-ln(1 + e^-x), which cannot overflow."""
    y: Vector = np.exp(-np.logaddexp(0.0, -x))
    return y


def bias(weights: Weights, name: str, size: int) -> Vector:
    """The bias vector `name`, or zeros where the model has none."""
    b = weights.get(name, np.zeros(size))
    if b.shape != (size,):
        raise ValueError(f"{name}: {b.shape}, not {(size,)}")
    return b


def embed(weights: Weights, side: str, word: int) -> Vector:
    """e(x) = E x + bias for a one-hot x, that is, one row of the stored table."""
    table = weights[f"{side}.embedding.words.weight"]
    if not 0 <= word < len(table):
        raise IndexError(f"{side} word {word} of {len(table)}")
    row: Vector = table[word]
    return row + bias(weights, f"{side}.embedding.bias", len(row))
