"""The columns that a scorer offers.

Moses takes the natural logarithm of every column and floors it at -100 (moses/Util.h, `TransformScore` and
`FloorScore`). So a log-probability is written as a probability and a count k as exp(k); the feature value in Moses is
then the log-probability or the count.

Shapes: N occurrences.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

FLOOR = -99.0
"""Lower values are written as exp(FLOOR), which is above Moses' own floor and the precision limit of 32-bit floats."""
_MOST_ROUNDING = 1.0
"""Nats by which rounding could make ln p of a phrase exceed 0, with a wide margin."""
LARGEST = 88.0
"""exp of a larger number overflows a 32-bit float."""
NEUTRAL = b"1"
"""The value for an invalid line that is kept: ln 1 = 0 does not change the score of a translation."""


@dataclass(frozen=True)
class Column:
    """A column that a scorer offers."""

    name: str
    kind: Literal["log-probability", "count", "log-linear"] = "log-probability"
    """Natural logs, at most 0; word counts; or a term of a log-linear model, which may be positive."""

    def texts(self, values_N: NDArray[np.float64]) -> tuple[list[bytes], int]:
        """Return exp(value) of each value with 9 significant digits, and the number of clipped values.

        Log-probabilities are clipped at `FLOOR` and at 0, which only rounding errors exceed; the latter are not
        counted. So each number is in (0, 1]. Other values are clipped at `FLOOR` and `LARGEST`.

        Raises:
            ValueError: a value is not a number, or far above 0 although it should be a log-probability.
        """
        if np.isnan(values_N).any():
            raise ValueError("a score is not a number")
        is_log_prob = self.kind == "log-probability"
        if is_log_prob and (values_N > _MOST_ROUNDING).any():
            raise ValueError(
                f"the column {self.name} has the value {values_N.max():g}, which is no log-probability; declare it as "
                '`Column(..., "log-linear")`'
            )
        limited_N = np.clip(values_N, FLOOR, 0.0 if is_log_prob else LARGEST)
        is_clipped_N = values_N < FLOOR if is_log_prob else limited_N != values_N
        clipped = 0 if self.kind == "count" else int(is_clipped_N.sum())
        return [b"%.9g" % number for number in np.exp(limited_N).tolist()], clipped


SCORE = Column("score")
UNNORMALISED = Column("unnormalised", "log-linear")
"""ln p without the sum of the softmax, of a network that was trained with `self_normalise`."""
PER_WORD = Column("per-word")
UNKNOWN_TARGET = Column("unknown-target", "count")
EXPECTED_BLEU = Column("expected-bleu", "log-linear")
