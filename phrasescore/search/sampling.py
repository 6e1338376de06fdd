"""Ancestral sampling: translations drawn word by word from p(y_t | y_<t, x).

Samples with a common prefix share its computation: a multinomial draw per distinct prefix gives the number of samples
for each next word.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from phrasescore.search.decoding import Decoding
from phrasescore.search.hypothesis import Hypothesis, finish
from phrasescore.search.search_config import SearchConfig
from phrasescore.vocabulary import END


@dataclass(frozen=True)
class Drawn:
    """A distinct translation and its number of samples."""

    hypothesis: Hypothesis
    times: int


def draw_translations(
    decoding: Decoding, config: SearchConfig, randoms: Sequence[np.random.Generator], *, force_end: bool = True
) -> list[list[Drawn]]:
    """Draw `n_best` translations of each source; return the distinct ones, most frequent first.

    Args:
        decoding: before its first step; it is consumed.
        config: number of samples, temperature, maximum length.
        randoms: a generator per sentence, so that samples do not depend on the other sentences.
        force_end: end samples at the maximum length; False draws one more symbol, and drops samples that do not end
            even then.
    """
    longest_S = config.longest(decoding.source_words_S)
    found: list[list[Drawn]] = [[] for _ in longest_S]
    times, totals = [config.n_best] * len(longest_S), [0.0] * len(longest_S)
    length = 0
    while times:
        unfinished: list[tuple[int, int, int, float]] = []
        for row, log_p_V in enumerate(decoding.to_cpu(decoding.step(forbid_unknown=config.forbid_unknown))):
            source = int(decoding.source_B[row])
            is_last = longest_S[source] == length
            drawn_V = _draw(log_p_V, times[row], config.temperature, randoms[source], must_end=is_last and force_end)
            for word in np.flatnonzero(drawn_V).tolist():
                count, total = int(drawn_V[word]), totals[row] + float(log_p_V[word])
                if word == END:
                    found[source].append(Drawn(finish(decoding, row, total, config), count))
                elif not is_last:
                    unfinished.append((row, word, count, total))
        times, totals = [one[2] for one in unfinished], [one[3] for one in unfinished]
        decoding.advance(*(np.array([one[column] for one in unfinished], np.int64) for column in (0, 1)))
        length += 1
    return [sorted(some, key=lambda one: (-one.times, -one.hypothesis.log_prob)) for some in found]


def _draw(
    log_p_V: NDArray[np.float64], number: int, temperature: float, random: np.random.Generator, *, must_end: bool
) -> NDArray[np.int64]:
    """Return the number of samples for each next word, [V]."""
    if must_end:
        return np.where(np.arange(len(log_p_V)) == END, number, 0)
    p_V = np.exp((log_p_V - log_p_V.max()) / temperature)
    return random.multinomial(number, p_V / p_V.sum())
