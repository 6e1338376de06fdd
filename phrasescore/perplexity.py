"""Perplexity, of language models and of networks for sentences."""

from __future__ import annotations

import math


def perplexity(per_word: float) -> float:
    """Return exp of a loss, the mean -ln p of words in nats; infinity where a double cannot hold it.

    It is as KenLM's `query` counts, if the ends of sentences are among the words.
    """
    try:
        return math.exp(per_word)
    except OverflowError:
        return math.inf
