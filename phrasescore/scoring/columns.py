"""How a score becomes a number in a phrase table.

Moses takes the natural logarithm of every column and floors it at -100 (moses/Util.h, `TransformScore` and
`FloorScore`). So a log-probability is written as a probability and a count k as exp(k); what Moses then sees
is the log-probability and the count.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

FLOOR = -99.0
"""Lower scores are written as exp(FLOOR): above Moses' own floor, where 32-bit floats still tell them apart."""
LARGEST_COUNT = 88
"""exp of a larger count is infinite as a 32-bit float."""


def score_column(scores: NDArray[np.float64]) -> tuple[list[bytes], int]:
    """Return exp(score) of each score with 9 significant digits, and how many were clipped at `FLOOR`.

    Rounding errors above 0 are clipped too, so each number is in (0, 1].

    Raises:
        ValueError: a score is not a number.
    """
    if np.isnan(scores).any():
        raise ValueError("a score is not a number")
    clipped = int((scores < FLOOR).sum())
    return [b"%.9g" % p for p in np.exp(np.clip(scores, FLOOR, 0.0)).tolist()], clipped


def count_column(counts: NDArray[np.integer]) -> list[bytes]:
    """Return exp(count) of each count, at most `LARGEST_COUNT`, with 9 significant digits."""
    texts = [b"%.9g" % math.exp(count) for count in range(LARGEST_COUNT + 1)]
    return [texts[min(count, LARGEST_COUNT)] for count in counts.tolist()]
