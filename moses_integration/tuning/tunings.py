"""What tuning finds."""

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
    """One decoding and the search for weights after it."""

    weights: dict[str, list[float]]
    """The weights decoded with."""
    bleu: float
    """BLEU of the best translations on the dev set, 0 to 100."""
    predicted: float
    """BLEU that the next weights have on the lists so far."""
    candidates: int
    """Translations in the lists so far."""
    seconds: float


@dataclass(frozen=True)
class Tuning:
    """What one tuning run found."""

    seed: int
    weights: dict[str, list[float]]
    """The weights of the decoding that had the highest dev BLEU."""
    bleu: float
    """That BLEU, 0 to 100."""
    iterations: list[Iteration] = field(default_factory=list)


@dataclass(frozen=True)
class Step:
    """What a decoding found, and the search for weights after it."""

    candidates: Candidates
    """Of this decoding alone."""
    achieved: float
    """BLEU of its best translations on the dev set, 0 to 1."""
    next_F: Floats
    """The weights to decode with next, of the features that are tuned."""
    predicted: float
    """BLEU that they have on all lists so far, 0 to 1."""
    seconds: float


def spread(values: Sequence[float]) -> tuple[float, float]:
    """Return mean and standard deviation (0 of a single value)."""
    return fmean(values), stdev(values) if len(values) > 1 else 0.0
