"""Log-probabilities of networks: perplexity, and validation: numbers are finite, and log-probabilities not positive.

Outputs are validated where they reach the CPU; later code relies on it.
"""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from phrasescore.errors import UserError

ROUNDING = 0.01
"""Tolerance in nats by which ln p of one symbol may exceed 0: the rounding error of 16-bit products with logits near
1,000, which no trained network reaches."""


def perplexity(per_word: float) -> float:
    """Return exp of a loss, the mean -ln p of words in nats; infinity on overflow."""
    try:
        return math.exp(per_word)
    except OverflowError:
        return math.inf


def are_log_probs(values: NDArray[np.floating], symbols: NDArray[np.integer] | int = 1) -> NDArray[np.bool_]:
    """Return which values are valid as ln p of `symbols` symbols: finite, and positive by rounding at most."""
    possible: NDArray[np.bool_] = (values > -np.inf) & (values <= ROUNDING * symbols)
    return possible


def require_log_probs(values: NDArray[np.floating], origin: Path | str, symbols: NDArray[np.integer] | int = 1) -> None:
    """Validate log-probabilities of `symbols` symbols each that a network returns; `origin` is its folder."""
    if not are_log_probs(values, symbols).all():
        raise UserError(
            f"{origin}: gives scores that are no log-probabilities; its weights are damaged, copy the model folder "
            "again or train again"
        )


def require_finite(values: NDArray[np.floating], origin: Path | str) -> None:
    """Validate outputs of a network that may have either sign, such as unnormalised scores and vectors."""
    if not np.isfinite(values).all():
        raise UserError(
            f"{origin}: computes numbers that are not finite; its weights are damaged, copy the model folder again or "
            "train again"
        )
