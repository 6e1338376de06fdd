"""Perplexity of language models and of networks for sentences."""

from __future__ import annotations

import math


def perplexity(per_word: float) -> float:
    """Return exp of a loss, the mean -ln p of words in nats; infinity on overflow.

    If ends of sentences count as words, the result is comparable with that of KenLM's `query`.
    """
    try:
        return math.exp(per_word)
    except OverflowError:
        return math.inf
