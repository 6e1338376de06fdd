"""Weights for rescoring: they maximise the expected BLEU of n-best lists, with a penalty on large weights.

With the feature values h(E) of an entry E and the weights w, a list is a probability distribution,

    p(E) = exp w . h(E) / sum over the entries E' of the list of exp w . h(E')

and the weights maximise

    BLEU of (sum over all lists and their E of p(E) c(E))  -  l2 |w|^2

where c(E) are the nine statistics of BLEU and the features are standardised: mean 0 in each list, and deviation 1 in a
typical list. Smith and Eisner, "Minimum Risk Annealing for Training Log-Linear Models" (ACL 2006); Rosti et al.,
"Expected BLEU Training for Graphs" (WMT 2011). Unlike the objective of MERT, this one has a gradient, and the penalty
limits overfitting, which grows with the number of features.

The objective of `moses_integration/expected_bleu` (+XBLEU) is another: the mean expected BLEU of sentences.

Shape suffixes: C candidates of all sentences, S sentences with candidates, F features, 9 statistics.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize
from scipy.special import expit

from moses_integration.nbest import ListFault
from moses_integration.tuning.bleu import STATISTICS, bleu, smoothed_bleu
from moses_integration.tuning.candidates import Candidates
from phrasescore.workers import map_ordered, start_workers

Floats = NDArray[np.float64]

L2_VALUES = (1.0, 0.3, 0.1, 0.03, 0.01, 0.003, 0.001, 0.0003)
"""Penalties, for BLEU from 0 to 100. The largest comes first, because each fit starts from the optimum before it."""
SHARPNESS = 1000.0
"""k of the brevity penalty: at R = t_1, BLEU is too low by 0.07%."""
_ROUNDING = 1e-12
"""Relative deviation of a constant, after rounding."""
FOLDS = 4
"""Each fold is held out once."""


@dataclass(frozen=True)
class ExpectedBleuOptimum:
    """The result of the search."""

    weights_F: Floats
    """The weights; the sum of their magnitudes is 1."""
    held_out: float
    """BLEU, 0 to 1, of the 1-best candidates of each fold under the weights of the other folds.

    It is slightly too high, because it is the highest of all l2.
    """
    l2: float


def maximise_expected_bleu(candidates: Candidates, processes: int = 1) -> ExpectedBleuOptimum:
    """Return weights with high expected BLEU on n-best lists: a local maximum, with the l2 that is best when held out.

    The search starts from weights of 0. The weight of a feature that is constant in each list stays 0.

    Args:
        candidates: the n-best lists of at least two sentences.
        processes: for parallel searches; each process has its own copy of the lists.
    """
    lists, deviation_F = StandardisedLists.standardised(candidates)
    if not deviation_F.any():
        raise ListFault("has no feature that differs between the translations of a sentence; give longer lists")
    # Alternate, because a dev set may consist of several parts.
    fold_S = np.arange(len(lists.sizes_S)) % FOLDS
    folds = range(min(FOLDS, len(fold_S)))
    parts = [lists, *(lists.where(fold_S != fold) for fold in folds)]
    with start_workers("tuning", min(processes, len(parts))) as workers:
        optima, *without_fold = map_ordered(_optima, parts, workers)
    counted = dict.fromkeys(L2_VALUES, np.zeros(STATISTICS, np.int64))
    for fold, of_rest in zip(folds, without_fold, strict=True):
        held_out = lists.where(fold_S == fold)
        for l2, weights_F in of_rest.items():
            counted[l2] = counted[l2] + held_out.best_statistics(weights_F)
    l2 = max(L2_VALUES, key=lambda value: float(smoothed_bleu(counted[value])))
    weights_F = np.divide(optima[l2], deviation_F, out=np.zeros(len(deviation_F)), where=deviation_F > 0)
    return ExpectedBleuOptimum(weights_F / (np.abs(weights_F).sum() or 1.0), float(bleu(counted[l2])), l2)


@dataclass(frozen=True)
class StandardisedLists:
    """n-best lists with standardised features, without the sentences that have no candidates."""

    features_CF: Floats
    statistics_C9: Floats
    sizes_S: NDArray[np.int64]
    """The number of candidates of each sentence, at least 1."""

    @classmethod
    def standardised(cls, candidates: Candidates) -> tuple[StandardisedLists, Floats]:
        """Return the lists, and the former deviations of their features, [F].

        That is the median over the lists in which the feature differs, which a few extreme values do not change; 0 if
        it is constant in each list.
        """
        sizes_S = np.diff(candidates.offsets)
        sizes_S = sizes_S[sizes_S > 0]
        starts_S = np.cumsum(sizes_S) - sizes_S
        means_SF = np.add.reduceat(candidates.features_CF, starts_S) / sizes_S[:, None]
        centred_CF = candidates.features_CF - means_SF.repeat(sizes_S, axis=0)
        deviation_SF = np.sqrt(np.add.reduceat(centred_CF**2, starts_S) / sizes_S[:, None])
        # The rounding errors of a constant are not a deviation.
        is_constant_SF = deviation_SF <= _ROUNDING * np.abs(means_SF)
        centred_CF[is_constant_SF.repeat(sizes_S, axis=0)] = 0
        columns = zip(deviation_SF.T, ~is_constant_SF.T, strict=True)
        deviation_F = np.array([np.median(one_S[varies_S]) if varies_S.any() else 0 for one_S, varies_S in columns])
        factor_F = np.divide(1, deviation_F, out=np.zeros(len(deviation_F)), where=deviation_F > 0)
        return cls(centred_CF * factor_F, candidates.statistics_C9.astype(np.float64), sizes_S), deviation_F

    def where(self, taken_S: NDArray[np.bool_]) -> StandardisedLists:
        """Return the lists of some sentences."""
        taken_C = taken_S.repeat(self.sizes_S)
        return StandardisedLists(self.features_CF[taken_C], self.statistics_C9[taken_C], self.sizes_S[taken_S])

    def scores(self, weights_F: Floats) -> Floats:
        """Return the scores of the candidates, [C]; sums of `einsum` do not depend on the number of threads."""
        score_C: Floats = np.einsum("cf,f->c", self.features_CF, weights_F)
        return score_C

    def best_statistics(self, weights_F: Floats) -> NDArray[np.int64]:
        """Return the summed statistics of the 1-best candidates, [9]."""
        score_C, ends_S = self.scores(weights_F), np.cumsum(self.sizes_S)
        ranges = zip((ends_S - self.sizes_S).tolist(), ends_S.tolist(), strict=True)
        best_S = [start + int(score_C[start:end].argmax()) for start, end in ranges]
        return np.asarray(self.statistics_C9[best_S].sum(axis=0), np.int64)

    def loss(self, weights_F: Floats, l2: float) -> tuple[float, Floats]:
        """Return l2 |w|^2 minus expected BLEU, 0 to 100, and the gradient, [F].

        With g the gradient of BLEU with respect to the expected statistics, that of expected BLEU with respect to the
        score of E is p(E) (g . c(E) - sum over the list's E' of p(E') g . c(E')).
        """
        starts_S = np.cumsum(self.sizes_S) - self.sizes_S
        score_C = self.scores(weights_F)
        power_C = np.exp(score_C - np.maximum.reduceat(score_C, starts_S).repeat(self.sizes_S))
        p_C = power_C / np.add.reduceat(power_C, starts_S).repeat(self.sizes_S)
        value, by_9 = smooth_bleu(np.einsum("c,cn->n", p_C, self.statistics_C9))
        value_C = np.einsum("cn,n->c", self.statistics_C9, by_9)
        mean_S = np.add.reduceat(p_C * value_C, starts_S)
        by_score_C = p_C * (value_C - mean_S.repeat(self.sizes_S))
        return l2 * float(weights_F @ weights_F) - value, 2 * l2 * weights_F - np.einsum(
            "c,cf->f", by_score_C, self.features_CF
        )


def smooth_bleu(statistics_9: Floats) -> tuple[float, Floats]:
    """Return an approximation of BLEU, 0 to 100, that is smooth; and its gradient, [9].

    log(BLEU / 100) = 1/4 sum over n of log (c_n + 1) / (t_n + 1)  -  log(1 + exp(k ((R + 1) / (t_1 + 1) - 1))) / k

    The last term is that of the brevity penalty, max(0, R / t_1 - 1), without the kink where L-BFGS would stop.
    """
    matches, totals = statistics_9[:-1:2] + 1, statistics_9[1:-1:2] + 1
    words, reference = totals[0], statistics_9[-1] + 1
    missing = reference / words - 1
    value = 100 * np.exp(np.log(matches / totals).mean() - np.logaddexp(0, SHARPNESS * missing) / SHARPNESS)
    by_missing = -expit(SHARPNESS * missing)
    by_9 = np.zeros(len(statistics_9))
    by_9[:-1:2], by_9[1:-1:2] = 1 / (len(matches) * matches), -1 / (len(totals) * totals)
    by_9[1] -= by_missing * reference / words**2
    by_9[-1] = by_missing / words
    return float(value), value * by_9


def _optima(lists: StandardisedLists) -> dict[float, Floats]:
    """Return the weights of the standardised features for each l2."""
    optima, weights_F = {}, np.zeros(lists.features_CF.shape[1])
    for l2 in L2_VALUES:
        weights_F = optima[l2] = minimize(lists.loss, weights_F, (l2,), "L-BFGS-B", jac=True).x
    return optima
