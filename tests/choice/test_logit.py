from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from phrasescore.choice.instances import Instances
from phrasescore.choice.logit import ConditionalLogit
from phrasescore.choice.options import Options
from tests.choice.brute_force import loss_of, mean_loss_of, random_problem


@pytest.mark.parametrize("scale", [0.0, 1.0, 3.0])
def test_losses_are_those_of_loops(scale: float) -> None:
    features_OF, options, instances, choices = random_problem(sources=5, instances=12, features=3)
    weights_F = scale * np.array([0.5, -1.0, 2.0])
    losses_I = ConditionalLogit(features_OF, options, instances).losses(weights_F)
    assert losses_I == pytest.approx([loss_of(choice, weights_F.tolist()) for choice in choices], abs=1e-12)
    slopes = ConditionalLogit(features_OF, options, instances).slopes(weights_F, instances.weight_I)
    assert slopes.loss == pytest.approx(mean_loss_of(choices, weights_F.tolist()))


def test_slopes_are_those_of_finite_differences() -> None:
    features_OF, options, instances, choices = random_problem(sources=6, instances=20, features=3)
    logit = ConditionalLogit(features_OF, options, instances)
    weights_F, small = np.array([0.3, -0.7, 0.2]), 1e-5
    slopes = logit.slopes(weights_F, instances.weight_I)
    for feature, step_F in enumerate(small * np.eye(3)):
        ends = [mean_loss_of(choices, (weights_F + sign * step_F).tolist()) for sign in (1, -1)]
        assert slopes.gradient_F[feature] == pytest.approx((ends[0] - ends[1]) / (2 * small), abs=1e-8)
        ends_F = [logit.slopes(weights_F + sign * step_F, instances.weight_I).gradient_F for sign in (1, -1)]
        assert slopes.hessian_FF[feature] == pytest.approx((ends_F[0] - ends_F[1]) / (2 * small), abs=1e-8)
    assert np.linalg.eigvalsh(slopes.chosen_FF).min() > 0


def test_the_fit_is_the_lowest_penalised_loss() -> None:
    features_OF, options, instances, choices = random_problem(sources=30, instances=80, features=3)
    logit = ConditionalLogit(features_OF, options, instances)
    fitted_F = logit.fit(instances.weight_I)

    # By loops: how each feature deviates from its mean among the options of each choice.
    options_C = [np.array(choice.features) for choice in choices]
    spread_F = np.sqrt(np.average([some.var(axis=0) for some in options_C], axis=0, weights=instances.weight_I))

    def penalised(weights_F: NDArray[np.float64]) -> float:
        return mean_loss_of(choices, weights_F.tolist()) + 1e-4 * float(((spread_F * weights_F) ** 2).sum())

    lowest = penalised(fitted_F)
    assert lowest < penalised(np.zeros(3))
    random = np.random.default_rng(1)
    for size in (1e-3, 0.1, 1.0):
        assert all(penalised(fitted_F + size * random.normal(size=3)) > lowest for _ in range(10))


def test_instances_that_count_nothing_do_not_matter() -> None:
    features_OF, options, instances, _ = random_problem(sources=10, instances=40, features=2)
    is_kept_I = np.arange(40) % 3 > 0
    some = ConditionalLogit(features_OF, options, instances.where(is_kept_I))
    every = ConditionalLogit(features_OF, options, instances)
    weights_F = np.array([0.4, -0.1])
    kept = some.slopes(weights_F, instances.weight_I[is_kept_I])
    assert every.slopes(weights_F, instances.weight_I * is_kept_I).loss == pytest.approx(kept.loss)
    assert some.losses(weights_F) == pytest.approx(every.losses(weights_F)[is_kept_I])


def test_neither_scale_nor_a_constant_of_a_source_matters() -> None:
    features_OF, options, instances, _ = random_problem(sources=20, instances=60, features=2)
    fitted_F = ConditionalLogit(features_OF, options, instances).fit(instances.weight_I)
    scaled = ConditionalLogit(features_OF * [100.0, 0.01], options, instances)
    assert scaled.fit(instances.weight_I) == pytest.approx(fitted_F / [100.0, 0.01], rel=1e-5)
    constant_OF = np.random.default_rng(1).normal(size=(20, 2))[options.source_O]
    shifted = ConditionalLogit(features_OF + constant_OF, options, instances)
    assert shifted.fit(instances.weight_I) == pytest.approx(fitted_F, rel=1e-5)


def test_a_feature_that_never_varies_within_a_source_has_no_weight() -> None:
    features_OF, options, instances, _ = random_problem(sources=20, instances=60, features=1)
    constant_O = np.arange(20.0)[options.source_O]
    both = ConditionalLogit(np.column_stack([features_OF, constant_O]), options, instances)
    fitted_F = both.fit(instances.weight_I)
    assert fitted_F[1] == pytest.approx(0.0, abs=1e-9)
    assert fitted_F[:1] == pytest.approx(ConditionalLogit(features_OF, options, instances).fit(instances.weight_I))


def test_a_perfect_feature_gets_a_large_weight_and_the_fit_ends() -> None:
    features_OF, options, instances, _ = random_problem(sources=20, instances=60, features=1)
    # Of each source the first option is right, and no other.
    first = options.offsets[instances.source_I]
    one = Instances(instances.source_I, np.arange(61), first, instances.weight_I, None)
    features_OF = np.isin(np.arange(len(features_OF)), options.offsets[:-1]).astype(float)[:, None]
    logit = ConditionalLogit(features_OF, options, one)
    fitted_F = logit.fit(one.weight_I)
    assert fitted_F[0] > 5
    assert logit.losses(fitted_F).max() < 0.02


def test_where_the_loss_is_not_convex_it_falls_all_the_same() -> None:
    # Either of two options is right that are on both sides of the wrong one: at 0 the loss is near a maximum.
    options = Options([b"a"], np.array([0, 3]), [b"x", b"y", b"z"], np.zeros((3, 0)))
    instances = Instances(np.array([0]), np.array([0, 2]), np.array([0, 2]), np.ones(1), None)
    logit = ConditionalLogit(np.array([[1.0], [0.0], [-0.9]]), options, instances)
    assert logit.slopes(np.zeros(1), np.ones(1)).hessian_FF < 0
    [loss] = logit.losses(logit.fit(np.ones(1)))
    assert loss < 0.01
