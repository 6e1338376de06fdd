"""The settings of tuning."""

from __future__ import annotations

from dataclasses import dataclass

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
