"""The results of tuning."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from statistics import fmean, stdev

import numpy as np
from numpy.typing import NDArray

from moses_integration.tuning.candidates import Candidates

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Iteration:
    """Summary of one iteration: a decoding, and the search for weights after it."""

    weights: dict[str, list[float]]
    """The weights of the decoding."""
    bleu: float
    """BLEU of the best translations on the dev set, 0 to 100."""
    predicted: float
    """BLEU of the next weights on the accumulated lists, 0 to 100."""
    candidates: int
    """Number of translations in the accumulated lists."""
    seconds: float


@dataclass(frozen=True)
class Tuning:
    """The result of tuning with one seed."""

    seed: int
    weights: dict[str, list[float]]
    """The weights of the decoding with the highest dev BLEU."""
    bleu: float
    """The highest dev BLEU, 0 to 100."""
    iterations: list[Iteration] = field(default_factory=list)


@dataclass(frozen=True)
class Step:
    """The data of one iteration, for a checkpoint."""

    candidates: Candidates
    """The candidates of this decoding only."""
    achieved: float
    """BLEU of the 1-best translations on the dev set, 0 to 1."""
    next_F: Floats
    """The weights of tuned features for the next decoding."""
    predicted: float
    """BLEU of `next_F` on the accumulated lists, 0 to 1."""
    seconds: float


def spread(values: Sequence[float]) -> tuple[float, float]:
    """Return mean and standard deviation (0 of a single value)."""
    return fmean(values), stdev(values) if len(values) > 1 else 0.0
