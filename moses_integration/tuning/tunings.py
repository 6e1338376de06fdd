"""The settings and the results of tuning."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from statistics import fmean, stdev

from phrasescore.configuration import option


@dataclass(frozen=True)
class WeightSearch:
    """Settings of the search for weights on n-best lists."""

    restarts: int = option(20, "random starts of each search", minimum=0)


@dataclass(frozen=True)
class TuningConfig(WeightSearch):
    """Settings of tuning on a dev set, with repeated decoding."""

    nbest: int = option(100, "distinct translations of a list", minimum=1)
    iterations: int = option(10, "decodings at most, the first with the weights that the moses.ini has", minimum=2)


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


def spread(values: Sequence[float]) -> tuple[float, float]:
    """Return mean and standard deviation (0 of a single value)."""
    return fmean(values), stdev(values) if len(values) > 1 else 0.0
