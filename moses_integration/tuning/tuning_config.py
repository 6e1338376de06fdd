"""How weights are tuned, as data."""

from __future__ import annotations

from dataclasses import dataclass

from phrasescore.configuration import option


@dataclass(frozen=True)
class WeightSearch:
    """How weights are searched for that are best on n-best lists."""

    restarts: int = option(20, "random starts of each search", minimum=0)


@dataclass(frozen=True)
class TuningConfig(WeightSearch):
    """How weights are tuned on a dev set, which is decoded with those found last for more lists."""

    nbest: int = option(100, "distinct translations of a list", minimum=1)
    iterations: int = option(10, "decodings at most, the first with the weights that the moses.ini has", minimum=2)
