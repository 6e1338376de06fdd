"""Translations drawn from a network, word by word from p(y_t | y_<t, x) (ancestral sampling).

Samples of a sentence that share a beginning share all that is computed for it: for each distinct beginning it is drawn
at once how many of its samples go on with which word.

Legend: B distinct beginnings, V words.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from phrasescore.search.hypothesis import Hypothesis, finish
from phrasescore.search.search_config import SearchConfig
from phrasescore.search.walk import Walk
from phrasescore.vocabulary import END


@dataclass(frozen=True)
class Drawn:
    """A translation, and how many of the samples it is."""

    hypothesis: Hypothesis
    times: int


def draw_translations(
    walk: Walk, config: SearchConfig, randoms: Sequence[np.random.Generator], *, force_end: bool = True
) -> list[list[Drawn]]:
    """Draw `n_best` translations of each source; return the distinct ones, most frequent first.

    Args:
        walk: at its start, where no row has read a word; it is used up.
        config: how many, the temperature, the longest translation.
        randoms: the random numbers of each sentence, so that samples do not depend on the company.
        force_end: end samples that are as long as may be; False draws one more symbol, and leaves those out that do
            not end even then.

    Raises:
        UserError: the networks do not give log-probabilities.
    """
    longest_S = config.longest(walk.source_words_S)
    found: list[list[Drawn]] = [[] for _ in longest_S]
    times, totals = [config.n_best] * len(longest_S), [0.0] * len(longest_S)
    length = 0
    while times:
        going_on: list[tuple[int, int, int, float]] = []
        for row, log_p_V in enumerate(walk.to_cpu(walk.step(forbid_unknown=config.forbid_unknown))):
            source = int(walk.source_B[row])
            is_last = longest_S[source] == length
            drawn_V = _draw(log_p_V, times[row], config.temperature, randoms[source], must_end=is_last and force_end)
            for word in np.flatnonzero(drawn_V).tolist():
                count, total = int(drawn_V[word]), totals[row] + float(log_p_V[word])
                if word == END:
                    found[source].append(Drawn(finish(walk, row, total, config), count))
                elif not is_last:
                    going_on.append((row, word, count, total))
        times, totals = [one[2] for one in going_on], [one[3] for one in going_on]
        walk.go_on(*(np.array([one[column] for one in going_on], np.int64) for column in (0, 1)))
        length += 1
    return [sorted(some, key=lambda one: (-one.times, -one.hypothesis.log_prob)) for some in found]


def _draw(
    log_p_V: NDArray[np.float64], number: int, temperature: float, random: np.random.Generator, *, must_end: bool
) -> NDArray[np.int64]:
    """Return how many of some samples go on with each word."""
    if must_end:
        return np.where(np.arange(len(log_p_V)) == END, number, 0)
    p_V = np.exp((log_p_V - log_p_V.max()) / temperature)
    return random.multinomial(number, p_V / p_V.sum())
