"""Ranking metrics.

Legend: Q queries, P phrases, d size of a vector.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from phrasescore.inspection import Vectors, unit_length

Numbers = NDArray[np.float64]
_QUERIES_AT_ONCE = 512


def mean_reciprocal_rank(
    vectors_Pd: Vectors, group_P: NDArray[np.int64], ignored: list[NDArray[np.int64]] | None = None
) -> float | None:
    """Return the mean of 1 / (rank of the first phrase of the query's own group), each phrase a query once.

    The other phrases are ranked by cosine similarity. Ties rank wrong phrases first, so that uninformative vectors get
    no credit. Queries without another phrase of their group are skipped. Return None if no query is left.

    Args:
        vectors_Pd: the vector of each phrase.
        group_P: the group of each phrase.
        ignored: for each query, phrases that are excluded from its ranking.
    """
    unit_Pd = unit_length(vectors_Pd)
    reciprocal: list[float] = []
    for start in range(0, len(unit_Pd), _QUERIES_AT_ONCE):
        cosine_QP = unit_Pd[start : start + _QUERIES_AT_ONCE] @ unit_Pd.T
        for row, cosine_P in enumerate(cosine_QP):
            query = start + row
            out = np.array([query]) if ignored is None else np.append(ignored[query], query)
            cosine_P[out] = -np.inf
            right_P = group_P == group_P[query]
            right_P[out] = False
            if right_P.any():
                best = cosine_P[right_P].max()
                reciprocal.append(1.0 / (1 + np.count_nonzero(cosine_P[~right_P] >= best)))
    return float(np.mean(reciprocal)) if reciprocal else None


def accuracy(true: Numbers, false: Numbers) -> float:
    """Return the fraction of pairs whose true number is larger; a tie counts half."""
    return float(np.mean((true > false) + 0.5 * (true == false)))


def area_under_curve(true: Numbers, false: Numbers) -> float:
    """Return the probability that a random true number is larger than a random false one; a tie counts half."""
    ordered = np.sort(false)
    below = np.searchsorted(ordered, true, "left") + np.searchsorted(ordered, true, "right")
    return float(below.mean() / (2 * len(false)))


def best_threshold(true: Numbers, false: Numbers) -> float:
    """Return the threshold that best separates true from false numbers.

    It maximises the fraction of false numbers below it minus the fraction of true numbers below it (Youden's J), and is
    the midpoint of two observed numbers.
    """
    values = np.unique(np.concatenate((true, false)))
    thresholds = np.append(values[0], (values[1:] + values[:-1]) / 2)
    false_below, true_below = (np.searchsorted(np.sort(some), thresholds) / len(some) for some in (false, true))
    return float(thresholds[np.argmax(false_below - true_below)])
