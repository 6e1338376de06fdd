"""What a network may say: finite numbers, and where they are log-probabilities none above 0.

Networks and their answers are checked where the answers enter the programs, on the CPU: `scoring/engine.py` for pairs,
`search/decoding.py` for the next words, `lm/scorer.py` for words in context. What comes after may rely on it.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from phrasescore.errors import UserError

ROUNDING = 0.01
"""Nats by which ln p of one symbol may lie above 0. A certain word's is off by 1e-4 where logits are near 100, by 1e-2
where 16-bit products make logits near 1,000; no network that learned something goes that far."""


def are_log_probs(values: NDArray[np.floating], symbols: NDArray[np.integer] | int = 1) -> NDArray[np.bool_]:
    """Return which numbers may be ln p of so many symbols: finite, and above 0 by rounding at most."""
    possible: NDArray[np.bool_] = (values > -np.inf) & (values <= ROUNDING * symbols)
    return possible


def require_log_probs(values: NDArray[np.floating], origin: Path | str, symbols: NDArray[np.integer] | int = 1) -> None:
    """Check numbers that a network gives for ln p.

    Args:
        values: on the CPU.
        origin: the network's folder, for the message.
        symbols: how many symbols each is ln p of.

    Raises:
        UserError: one is not finite or above 0.
    """
    if not are_log_probs(values, symbols).all():
        raise UserError(
            f"{origin}: gives scores that are no log-probabilities; its weights are damaged, copy the model folder "
            "again or train again"
        )


def require_finite(values: NDArray[np.floating], origin: Path | str) -> None:
    """Check numbers of a network that may have either sign, as unnormalised scores and vectors.

    Raises:
        UserError: one is not finite.
    """
    if not np.isfinite(values).all():
        raise UserError(
            f"{origin}: computes numbers that are not finite; its weights are damaged, copy the model folder again or "
            "train again"
        )
