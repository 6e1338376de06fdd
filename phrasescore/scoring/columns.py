"""How a score becomes a number in a phrase table.

Moses takes the natural logarithm of every column and floors it at -100 (moses/Util.h, `TransformScore` and
`FloorScore`). So a log-probability is written as a probability and a count k as exp(k); what Moses then sees
is the log-probability and the count.

What a column is, is said here and nowhere else: a new one is a class, and an instance of it in `COLUMNS`.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import get_args

import numpy as np
from numpy.typing import NDArray

from phrasescore.scoring.scores import Scores, UnknownSide

FLOOR = -99.0
"""Lower scores are written as exp(FLOOR): above Moses' own floor, where 32-bit floats still tell them apart."""
LARGEST_COUNT = 88
"""exp of a larger number is infinite as a 32-bit float."""


def score_column(scores: NDArray[np.float64]) -> tuple[list[bytes], int]:
    """Return exp(score) of each score with 9 significant digits, and how many were clipped at `FLOOR`.

    Rounding errors above 0 are clipped too, so each number is in (0, 1].

    Raises:
        ValueError: a score is not a number.
    """
    if np.isnan(scores).any():
        raise ValueError("a score is not a number")
    clipped = int((scores < FLOOR).sum())
    return [b"%.9g" % p for p in np.exp(np.clip(scores, FLOOR, 0.0)).tolist()], clipped


def value_column(values: NDArray[np.float64]) -> tuple[list[bytes], int]:
    """Return exp(value) of each value with 9 significant digits, and how many were clipped.

    They are clipped at `FLOOR` and `LARGEST_COUNT`, so each number is above 0 and finite as a 32-bit float.
    """
    limited = np.clip(values, FLOOR, LARGEST_COUNT)
    return [b"%.9g" % number for number in np.exp(limited).tolist()], int((limited != values).sum())


def count_column(counts: NDArray[np.integer]) -> list[bytes]:
    """Return exp(count) of each count, at most `LARGEST_COUNT`, with 9 significant digits."""
    texts = [b"%.9g" % math.exp(count) for count in range(LARGEST_COUNT + 1)]
    return [texts[min(count, LARGEST_COUNT)] for count in counts.tolist()]


class Column(ABC):
    """A column to append to a phrase table."""

    neutral = b"1"
    """What a faulty line gets when it is kept: ln 1 = 0 adds nothing to a translation's score."""
    kind = "encoder-decoder"
    """Of the models that it comes from, as their config.json names it."""
    needs_log_prob = True
    """Whether its text depends on ln p; where that of no column does, no network is asked."""

    @property
    @abstractmethod
    def name(self) -> str:
        """What to call it, in reports and on the command line."""

    @abstractmethod
    def texts(self, scores: Scores) -> tuple[list[bytes], int]:
        """Return its text for each pair, and how many pairs had a score that was clipped."""


@dataclass(frozen=True)
class Score(Column):
    """The probability of the target given the source."""

    name = "score"

    def texts(self, scores: Scores) -> tuple[list[bytes], int]:
        """Return exp(ln p)."""
        return score_column(scores.values(per_word=False))


@dataclass(frozen=True)
class PerWordScore(Column):
    """Its geometric mean over the predicted symbols."""

    name = "per-word"

    def texts(self, scores: Scores) -> tuple[list[bytes], int]:
        """Return exp(ln p / symbols)."""
        return score_column(scores.values(per_word=True))


@dataclass(frozen=True)
class UnknownWords(Column):
    """The number of words that the network does not know."""

    side: UnknownSide
    """Of the table, not of the network."""
    needs_log_prob = False

    @property
    def name(self) -> str:
        """Return one for each side."""
        return f"unknown-{self.side}"

    def texts(self, scores: Scores) -> tuple[list[bytes], int]:
        """Return exp(count)."""
        return count_column(scores.unknown(self.side)), 0


@dataclass(frozen=True)
class ExpectedBleu(Column):
    """The function of phrase pairs that was trained to raise expected BLEU; exp of it may be above 1."""

    name = "expected-bleu"
    kind = "expected-bleu"

    def texts(self, scores: Scores) -> tuple[list[bytes], int]:
        """Return exp(f)."""
        return value_column(scores.log_prob)


COLUMNS: dict[str, Column] = {
    column.name: column
    for column in (Score(), PerWordScore(), *map(UnknownWords, get_args(UnknownSide)), ExpectedBleu())
}


def columns_of(kind: str) -> list[Column]:
    """Return the columns that models of a kind give, the usual one first."""
    return [column for column in COLUMNS.values() if column.kind == kind]
