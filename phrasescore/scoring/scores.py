"""Scores of phrase pairs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from phrasescore.pairs import Direction, orient

UnknownSide = Literal["target", "source", "both"]
MANY_UNKNOWN = 0.5
"""A share of words; scores are unreliable if a larger share is unknown."""


@dataclass(frozen=True)
class Scores:
    """Values for each pair, in the order of the input."""

    log_prob: NDArray[np.float64]
    """ln p(target | source), end symbol included, or f of a phrase-pair model; NaN if no model was run."""
    symbols: NDArray[np.int64]
    """Predicted symbols: target words and the end symbol."""
    unknown_source: NDArray[np.int64]
    """Number of words outside the source vocabulary; source and target are the input and output of the network."""
    unknown_target: NDArray[np.int64]
    direction: Direction
    words: tuple[int, int] = (0, 0)
    """Words of all pairs, source and target of the table, that were looked up in a vocabulary."""

    def unknown(self, side: UnknownSide) -> NDArray[np.int64]:
        """Return the number of unknown words of each pair on a side of the table."""
        source, target = orient((self.unknown_source, self.unknown_target), self.direction)
        return {"source": source, "target": target, "both": source + target}[side]

    def values(self, *, per_word: bool) -> NDArray[np.float64]:
        """Return ln p of each pair, or with `per_word` its mean over the predicted symbols."""
        return self.log_prob / self.symbols if per_word else self.log_prob
