"""The conditional logit: a log-linear choice among the options of a source (McFadden, 1974).

An option with features x has the probability exp(w x) / Z, where Z sums over all options of its source, as in a
log-linear decoder that had one phrase to translate. Where several options are right, the probability of the instance
is the sum of theirs.

Shapes: S sources, O options, I instances, R right options of all instances, F features.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from phrasescore.choice.instances import Instances
from phrasescore.choice.options import Options

Floats = NDArray[np.float64]

_PENALTY = 1e-4
"""Times the sum of the squared weights, of features that have a standard deviation of 1 within their sources."""
_STEPS = 100
_HALVINGS = 40
_CLOSE = 1e-8
"""A component of the gradient, in nats an instance, that is as good as none."""
_VARIES = 1e-9
"""The least standard deviation of a feature within its sources that is more than rounding."""


@dataclass(frozen=True)
class Slopes:
    """The mean loss at some weights, and how it changes with them."""

    loss: float
    gradient_F: Floats
    hessian_FF: Floats
    chosen_FF: Floats
    """The part of the Hessian that has no negative eigenvalue: what it would be if it were known which of the right
    options is meant."""


class ConditionalLogit:
    """Instances and the features of their options, to be fitted and measured."""

    def __init__(self, features_OF: Floats, options: Options, instances: Instances) -> None:
        self.features_OF = features_OF
        self._instances = instances
        self._starts_S = options.offsets[:-1]
        self._source_O = options.source_O
        self._instance_R = np.repeat(np.arange(len(instances)), np.diff(instances.offsets))

    def losses(self, weights_F: Floats) -> Floats:
        """Return -ln of the probability of each instance [I], in nats."""
        values_O = self.features_OF @ weights_F
        log_sum_S = _log_sums(values_O, self._starts_S, self._source_O)
        losses: Floats = log_sum_S[self._instances.source_I] - self._right_sums(values_O)
        return losses

    def _right_sums(self, values_O: Floats) -> Floats:
        return _log_sums(values_O[self._instances.right_R], self._instances.offsets[:-1], self._instance_R)

    def slopes(self, weights_F: Floats, count_I: Floats) -> Slopes:
        """Return the mean loss of the instances, each counted so often, with its first and second derivatives."""
        features_OF, instances = self.features_OF, self._instances
        right_R, count_I = instances.right_R, count_I / count_I.sum()
        values_O = features_OF @ weights_F
        log_sum_S = _log_sums(values_O, self._starts_S, self._source_O)
        right_sum_I = self._right_sums(values_O)
        count_S = _sums(instances.source_I, count_I, len(log_sum_S))
        chosen_O = np.exp(values_O - log_sum_S[self._source_O])
        meant_R = np.exp(values_O[right_R] - right_sum_I[self._instance_R])
        expected_O = count_S[self._source_O] * chosen_O
        observed_O = _sums(right_R, count_I[self._instance_R] * meant_R, len(values_O))
        mean_SF: Floats = np.add.reduceat(chosen_O[:, None] * features_OF, self._starts_S)
        mean_IF: Floats = np.add.reduceat(meant_R[:, None] * features_OF[right_R], instances.offsets[:-1])
        chosen_FF = _squares(features_OF, expected_O) - _squares(mean_SF, count_S)
        meant_FF = _squares(features_OF, observed_O) - _squares(mean_IF, count_I)
        return Slopes(
            float(count_I @ (log_sum_S[instances.source_I] - right_sum_I)),
            features_OF.T @ (expected_O - observed_O),
            chosen_FF - meant_FF,
            chosen_FF,
        )

    def spread(self, count_I: Floats) -> Floats:
        """Return the standard deviation of each feature [F] within the sources of instances, 1 where it is constant."""
        sizes_S = np.bincount(self._source_O)
        count_S = _sums(self._instances.source_I, count_I / count_I.sum(), len(sizes_S))
        mean_SF = np.add.reduceat(self.features_OF, self._starts_S) / sizes_S[:, None]
        within_OF = self.features_OF - mean_SF[self._source_O]
        spread_F: Floats = np.sqrt((count_S / sizes_S)[self._source_O] @ within_OF**2)
        return np.where(spread_F > _VARIES, spread_F, 1.0)

    def fit(self, count_I: Floats) -> Floats:
        """Return the weights [F] at which the mean loss of the instances, each counted so often, is lowest.

        It is the loss with a small penalty on large weights, which does not depend on the scale of a feature. Newton's
        method; the loss need not be convex where several options are right, and there the part of its curvature that
        is takes the place of the whole: EM's view of it.
        """
        spread_F = self.spread(count_I)
        penalty_F = _PENALTY * spread_F**2

        def penalised(weights_F: Floats) -> float:
            return float(count_I @ self.losses(weights_F) / count_I.sum() + penalty_F @ weights_F**2)

        weights_F = np.zeros(len(penalty_F))
        for _ in range(_STEPS):
            slopes = self.slopes(weights_F, count_I)
            gradient_F = slopes.gradient_F + 2 * penalty_F * weights_F
            if np.abs(gradient_F / spread_F).max(initial=0.0) < _CLOSE:
                break
            step_F = _newton_step(slopes, gradient_F, 2 * penalty_F)
            before, slope = slopes.loss + penalty_F @ weights_F**2, gradient_F @ step_F
            halves = 0.5 ** np.arange(_HALVINGS)
            lower = (half for half in halves if penalised(weights_F + half * step_F) <= before + half * slope / 4)
            if not (half := next(lower, 0.0)):
                break
            weights_F = weights_F + half * step_F
        return weights_F


def _newton_step(slopes: Slopes, gradient_F: Floats, penalty_F: Floats) -> Floats:
    """Return a step along which the loss falls."""
    for curvature_FF in (slopes.hessian_FF, slopes.chosen_FF):
        hessian_FF = curvature_FF + np.diag(penalty_F)
        # To the same scale, so that what is nearly 0 is so for all features.
        scale_F = np.sqrt(np.maximum(np.diag(slopes.chosen_FF) + penalty_F, np.finfo(float).tiny))
        scaled_FF = hessian_FF / np.outer(scale_F, scale_F)
        if np.linalg.eigvalsh(scaled_FF)[0] > 0:
            break
    step_F: Floats = -np.linalg.solve(scaled_FF, gradient_F / scale_F) / scale_F
    return step_F


def _log_sums(values: Floats, starts: NDArray[np.int64], group: NDArray[np.int64]) -> Floats:
    """Return ln of the sum of exp of the values of each group: groups are consecutive and not empty."""
    if not len(starts):
        return np.zeros(0)
    most = np.maximum.reduceat(values, starts)
    sums: Floats = most + np.log(np.add.reduceat(np.exp(values - most[group]), starts))
    return sums


def _sums(group_N: NDArray[np.int64], values_N: Floats, groups: int) -> Floats:
    """Return the sum of the values of each group."""
    return np.bincount(group_N, values_N, minlength=groups).astype(np.float64)


def _squares(rows_NF: Floats, count_N: Floats) -> Floats:
    """Return the sum of the outer squares of rows, each counted so often [F, F]."""
    squares: Floats = rows_NF.T @ (count_N[:, None] * rows_NF)
    return squares
