"""Options of the search."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from phrasescore.configuration import option
from phrasescore.errors import UsageError, arg_name

_NO_LIMIT = 1e9
"""Maximum words of a translation for an infinite ratio."""
_FOR_SAMPLES = ("temperature", "seed")
_FOR_SEARCHES = ("beam", "length_penalty")


@dataclass(frozen=True)
class SearchConfig:
    """Options of search, sampling and ranking."""

    beam: int = option(5, "beam width; 1 is greedy search", minimum=1)
    n_best: int = option(
        1,
        "translations of each sentence, at most --beam, or samples to draw; several samples require --json",
        minimum=1,
    )
    length_penalty: float = option(
        1.0,
        "finished translations are ranked by ln p / symbols^X, where the symbols are the target words or subwords and "
        "the end symbol; 0: by ln p; larger values prefer longer translations",
        minimum=0,
        maximum=10,
    )
    max_ratio: float = option(
        2.0, "a translation has at most this number of words per source word, plus --max-extra", minimum=0
    )
    max_extra: int = option(
        10, "words added to the limit of --max-ratio; at the limit, the end symbol is forced", minimum=0
    )
    replace_unknown: bool = option(False, "replace each <unk> by the source word with the highest attention weight")
    sample: bool = option(False, "draw translations from the network instead of searching for the best")
    temperature: float = option(
        1.0, "with --sample: draw from p^(1/T); values below 1 prefer probable words", minimum=0.001, maximum=1e6
    )
    seed: int = option(1, "with --sample: random seed; each sentence has its own generator", minimum=0)

    @classmethod
    def checked(cls, given: Mapping[str, Any]) -> Self:
        """Return the configuration of the options that a user gave; conflicts and options without effect are errors."""
        config = cls(**given)
        for name in given:
            if config.sample and name in _FOR_SEARCHES:
                raise UsageError(f"{arg_name(name)}: is for searching, but {arg_name('sample')} draws; leave one out")
            if not config.sample and name in _FOR_SAMPLES:
                raise UsageError(f"{arg_name(name)}: is for drawing translations; give {arg_name('sample')} too")
        if config.n_best > config.beam and not config.sample:
            given_n, needed = arg_name("n_best", config.n_best), arg_name("beam", config.n_best)
            raise UsageError(f"{given_n}: is more than the beam holds; give {needed}")
        return config

    def longest(self, source_words: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the maximum number of words of the translations of sources with these numbers of words."""
        by_source: NDArray[np.int64] = np.minimum(self.max_ratio * source_words, _NO_LIMIT).astype(np.int64)
        return by_source + self.max_extra

    def value(self, log_prob: float, symbols: int) -> float:
        """Return the score by which translations are ranked, from ln p of this number of target symbols."""
        return float(log_prob / symbols**self.length_penalty)
