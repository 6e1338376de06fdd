"""Finished translations, and the score by which they are ranked.

Legend: T target symbols (words and the end symbol), L source symbols (likewise).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from phrasescore.log_probs import require_log_probs
from phrasescore.search.decoding import AttentionWeights, Decoding
from phrasescore.search.search_config import SearchConfig

_LEAST = float(np.finfo(np.float32).tiny)


@dataclass(frozen=True)
class Hypothesis:
    """One finished translation of a sentence."""

    words: tuple[int, ...]
    """Ids of the target words, without the end symbol."""
    log_prob: float
    """ln p(target | source), end symbol included."""
    value: float
    """The ranking score: `log_prob` with length and coverage penalty."""
    attention_TL: AttentionWeights | None


def finish(decoding: Decoding, row: int, log_prob: float, config: SearchConfig) -> Hypothesis:
    """Return the translation that ends after a row of the last step; `log_prob` includes the end symbol.

    Raises:
        UserError: the network is damaged and gives no log-probabilities.
    """
    words, attention_TL = decoding.path(row)
    require_log_probs(np.array(log_prob), decoding.origin, len(words) + 1)
    value = log_prob / length_penalty(len(words) + 1, config)
    if config.coverage and attention_TL is not None:
        value += config.coverage * coverage(attention_TL)
    return Hypothesis(words, log_prob, value, attention_TL)


def length_penalty(symbols: int, config: SearchConfig) -> float:
    """Return the divisor of ln p for this number of target symbols."""
    if config.length_penalty == "per-word":
        return symbols
    if config.length_penalty == "wu":
        # Wu et al. 2016, Eq. 14: ((5 + |Y|) / (5 + 1))^alpha
        return math.pow((5 + symbols) / 6, config.alpha)
    return 1.0


def coverage(attention_TL: AttentionWeights) -> float:
    """Return sum_j ln min(1, sum_t a_t(j)) over the source words j, without the end symbol (Wu et al. 2016, Eq. 14)."""
    given_L = attention_TL[:, :-1].sum(axis=0, dtype=np.float64)
    return math.fsum(np.log(np.clip(given_L, _LEAST, 1.0)))
