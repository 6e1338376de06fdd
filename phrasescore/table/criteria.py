"""Criteria for pruning a phrase table: each gives every line a value, the higher the more useful.

The counts of a table are those of extraction: how often a target phrase, a source phrase and the pair were extracted,
not in how many sentences they occur. N below is the number of all extracted pairs, the sum of the joint counts.

Shapes: N lines of a chunk, K numbers of a line.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from phrasescore.table.entry import LOWEST_LOG, SURFACE, Counted, Entry, Factors, LineFault
from phrasescore.text import counted

EPSILON = 1e-3
"""Distance of the thresholds alpha+epsilon and alpha-epsilon from alpha; larger than rounding errors."""
_COUNTED: tuple[Counted, ...] = ("target", "source", "pair")
_MOST_PAIRS = 1e15
"""Larger counts are errors: floating-point numbers are not exact there."""
_NEGLIGIBLE = 1e-17
_IRREPLACEABLE = -10.0
"""ln p of a phrase pair without smaller parts after it is dropped."""
_log_gamma = np.frompyfunc(math.lgamma, 1, 1)

Floats = NDArray[np.float64]


class Criterion(ABC):
    """Gives each line of a table a value."""

    name: str
    factors: Factors = SURFACE

    @abstractmethod
    def read(self, entry: Entry) -> tuple[float, ...]:
        """Return the numbers of a line that the value depends on; a line without them is a LineFault."""

    def values(self, entries: Sequence[Entry], numbers_NK: Floats) -> Floats:
        """Return the values of lines, given the numbers of each; by default the first number."""
        return numbers_NK[:, 0]

    def tie_breakers(self, numbers_NK: Floats) -> Floats:
        """Return what decides between lines with equal values and equally many source words, the larger the better."""
        return np.zeros(len(numbers_NK))

    def fingerprint(self) -> dict[str, Any]:
        """Return everything but the table that determines the values, by names for messages."""
        return {"criterion": self.name}


@dataclass(frozen=True)
class ColumnValue(Criterion):
    """A column of the table."""

    number: int
    """From 1."""

    @property
    def name(self) -> str:  # type: ignore[override]
        return f"column {self.number}"

    def read(self, entry: Entry) -> tuple[float, ...]:
        return (_score(entry, self.number),)


class JointCount(Criterion):
    """How often the pair was extracted; of equal counts, the share of the pair among those of its source decides."""

    name = "count"

    def read(self, entry: Entry) -> tuple[float, ...]:
        _, source, pair = _counts(entry)
        return pair, source

    def tie_breakers(self, numbers_NK: Floats) -> Floats:
        shares_N: Floats = numbers_NK[:, 0] / np.maximum(1.0, numbers_NK[:, 1])
        return shares_N


class RelativeEntropy(Criterion):
    """How much the translation probabilities change if the pair is dropped (Zens, Stanton and Xu, 2012).

    The value is count(f, e) (ln p(e | f) - ln p'(e | f)), a term of the relative entropy of the model with the pair and
    the model without it. p' is the lexical weight: the probability of translating word by word, which needs no other
    line of the table. A source phrase of one word has no smaller parts; then p' is exp(-10).
    """

    name = "entropy"

    def read(self, entry: Entry) -> tuple[float, ...]:
        pair = _counts(entry)[2]
        lexical = _score(entry, 4) if b" " in entry.source else math.exp(_IRREPLACEABLE)
        return pair, _score(entry, 3), lexical

    def values(self, entries: Sequence[Entry], numbers_NK: Floats) -> Floats:
        logs_NK = np.log(np.maximum(numbers_NK[:, 1:], math.exp(LOWEST_LOG)))
        values_N: Floats = numbers_NK[:, 0] * (logs_NK[:, 0] - logs_NK[:, 1])
        return values_N


@dataclass(frozen=True)
class Significance(Criterion):
    """-ln p of Fisher's exact test, one-sided (Johnson, Martin, Foster and Kuhn, 2007).

    p is the probability that two independent phrases with these counts are extracted together as often, or more often.
    """

    pairs: float
    name = "significance"

    @property
    def alpha(self) -> float:
        """The value ln N of a pair that was extracted once, of phrases that were extracted once."""
        return math.log(self.pairs)

    def read(self, entry: Entry) -> tuple[float, ...]:
        target, source, pair = map(round, _counts(entry))
        is_possible = 1 <= pair <= min(target, source) and target + source - pair <= self.pairs <= _MOST_PAIRS
        if not is_possible:
            raise LineFault(
                "field 5 (counts)",
                f"has counts of target, source and pair that do not belong to a table of {self.pairs:,.0f} extracted "
                "pairs",
                "prune the whole table that was built, not a part of it, or choose another criterion",
                is_about_the_table=True,
            )
        return target, source, pair

    def values(self, entries: Sequence[Entry], numbers_NK: Floats) -> Floats:
        # Most lines of a table have the same few small counts.
        different_NK, which_N = np.unique(numbers_NK, axis=0, return_inverse=True)
        target_N, source_N, pair_N = different_NK.T
        values_N: Floats = fisher(target_N, source_N, pair_N, self.pairs)[which_N.reshape(-1)]
        return values_N


def fisher(target_N: Floats, source_N: Floats, pair_N: Floats, pairs: float) -> Floats:
    """Return -ln p of Fisher's exact test for counts of target, source and pair, among all extracted `pairs`.

    p is the probability of this joint count or a larger one. The shorter tail of the distribution is summed: for a
    count below its mean, that of smaller counts. Its terms decrease quickly.
    """
    # Without pairs of other phrases, no smaller joint count is possible.
    has_others_N = pairs - target_N - source_N + pair_N > 0
    result_N, is_below_N = np.empty(len(pair_N)), has_others_N & (pair_N * pairs <= target_N * source_N)
    target, source, pair = target_N[~is_below_N], source_N[~is_below_N], pair_N[~is_below_N]
    result_N[~is_below_N] = -_log_tail(target, source, pair, pairs)
    target, source, pair = target_N[is_below_N], source_N[is_below_N], pair_N[is_below_N]
    # Joint counts of the source with anything but the target.
    result_N[is_below_N] = -np.log1p(-np.exp(_log_tail(pairs - target, source, source - pair + 1, pairs)))
    return np.maximum(result_N, 0.0)


def _log_tail(target_N: Floats, source_N: Floats, pair_N: Floats, pairs: float) -> Floats:
    """Return ln of the sum of the hypergeometric probabilities of joint counts from the given one on."""
    first_N = (
        _log_binomial(source_N, pair_N)
        + _log_binomial(pairs - source_N, target_N - pair_N)
        - _log_binomial(np.full_like(target_N, pairs), target_N)
    )
    neither_N = pairs - target_N - source_N + pair_N
    # Terms relative to the first; lines whose later terms are negligible are left out.
    sum_N, term, left, more = np.ones_like(first_N), np.ones_like(first_N), np.arange(len(first_N)), 0
    while len(left):
        only_source, only_target = source_N[left] - pair_N[left] - more, target_N[left] - pair_N[left] - more
        more += 1
        term = term * only_source * only_target / ((pair_N[left] + more) * (neither_N[left] + more))
        sum_N[left] += term
        matters = term > _NEGLIGIBLE * sum_N[left]
        left, term = left[matters], term[matters]
    log_tail_N: Floats = first_N + np.log(sum_N)
    return log_tail_N


def _log_binomial(n: Floats, k: Floats) -> Floats:
    return np.asarray(_log_gamma(n + 1) - _log_gamma(k + 1) - _log_gamma(n - k + 1), np.float64)


def _counts(entry: Entry) -> tuple[float, float, float]:
    """Return the counts of target, source and pair."""
    target, source, pair = (entry.occurrences(of) for of in _COUNTED)
    if target is None or source is None or pair is None:
        raise LineFault(
            "field 5 (counts)",
            "lacks the counts of target, source and pair",
            "choose another criterion, or build the table with counts, as Moses does by default",
            is_about_the_table=True,
        )
    return target, source, pair


def _score(entry: Entry, number: int) -> float:
    scores = entry.scores.split(b" ")
    if len(scores) < number:
        raise LineFault(
            "field 3 (scores)",
            f"has {counted(len(scores), 'score')}, and column {number} is needed",
            "choose another criterion",
            is_about_the_table=True,
        )
    return float(scores[number - 1])
