"""Log-probabilities of networks: perplexity, and validation: numbers are finite, and log-probabilities not positive.

Outputs are validated where they enter the programs, on the CPU: `scoring/encoder_decoder.py` for pairs,
`search/decoding.py` for the next words, `lm/lm_scorer.py` for words in context. Later code relies on it.
"""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from phrasescore.errors import UserError

ROUNDING = 0.01
"""Tolerance in nats by which ln p of one symbol may exceed 0.

The rounding error for a certain word is 1e-4 for logits near 100, and 1e-2 where 16-bit products give logits near
1,000, which no trained network reaches.
"""


def perplexity(per_word: float) -> float:
    """Return exp of a loss, the mean -ln p of words in nats; infinity on overflow.

    If ends of sentences count as words, the result is comparable with that of KenLM's `query`.
    """
    try:
        return math.exp(per_word)
    except OverflowError:
        return math.inf


def are_log_probs(values: NDArray[np.floating], symbols: NDArray[np.integer] | int = 1) -> NDArray[np.bool_]:
    """Return which values are valid as ln p of `symbols` symbols: finite, and positive by rounding at most."""
    possible: NDArray[np.bool_] = (values > -np.inf) & (values <= ROUNDING * symbols)
    return possible


def require_log_probs(values: NDArray[np.floating], origin: Path | str, symbols: NDArray[np.integer] | int = 1) -> None:
    """Validate log-probabilities of `symbols` symbols each that a network returns; `origin` is its folder.

    Raises:
        UserError: a value is not finite or is positive.
    """
    if not are_log_probs(values, symbols).all():
        raise UserError(
            f"{origin}: gives scores that are no log-probabilities; its weights are damaged, copy the model folder "
            "again or train again"
        )


def require_finite(values: NDArray[np.floating], origin: Path | str) -> None:
    """Validate outputs of a network that may have either sign, such as unnormalised scores and vectors.

    Raises:
        UserError: a value is not finite.
    """
    if not np.isfinite(values).all():
        raise UserError(
            f"{origin}: computes numbers that are not finite; its weights are damaged, copy the model folder again or "
            "train again"
        )
