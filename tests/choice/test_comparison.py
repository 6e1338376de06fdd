from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from phrasescore.choice.comparison import compare, difference, hold_out, mean_loss, source_halves
from phrasescore.choice.instances import DevText
from phrasescore.choice.logit import ConditionalLogit
from phrasescore.choice.problem import ChoiceProblem
from phrasescore.errors import UserError
from phrasescore.phrases import offsets_of
from phrasescore.sentences import ParallelText
from tests.choice.brute_force import Choice, loss_of, random_problem
from tests.conftest import MINI


def test_each_half_is_tested_with_weights_of_the_other() -> None:
    features_OF, options, instances, choices = random_problem(sources=20, instances=60, features=2)
    features = {"a": features_OF[:, 0], "b": features_OF[:, 1]}
    found = hold_out(features, options, instances)
    half_I = source_halves(options)[instances.source_I]
    assert 0 < half_I.sum() < 60
    fitted = []
    for half in (False, True):
        others = instances.where(half_I != half)
        fitted.append(ConditionalLogit(features_OF, options, others).fit(others.weight_I))
        tested = [loss_of(choices[i], fitted[-1].tolist()) for i in np.flatnonzero(half_I == half)]
        assert found.losses_I[half_I == half] == pytest.approx(tested)
    assert list(found.weights.values()) == pytest.approx((fitted[0] + fitted[1]) / 2)


def test_a_column_that_knows_what_is_right_is_worth_something_and_noise_is_not() -> None:
    features_OF, options, instances, _ = random_problem(sources=200, instances=2000, features=2)
    knows_O = np.random.default_rng(2).normal(size=len(features_OF))
    knows_O += np.bincount(instances.right_R, minlength=len(features_OF)) / 3
    further = {"knows": knows_O, "noise": features_OF[:, 1], "copy": 3 * features_OF[:, 0]}
    base, knows, noise, copy, every = compare({"base": features_OF[:, 0]}, further, options, instances)
    assert base.difference is None
    assert [row.name for row in (base, knows, noise, copy, every)] == ["base", "knows", "noise", "copy", "all"]
    for row in (knows, noise, copy, every):
        assert row.difference is not None
        assert row.difference.nats == pytest.approx(row.nats - base.nats)
        assert next(iter(row.weights)) == "base"
    assert knows.difference is not None
    assert knows.difference.nats < -4 * knows.difference.standard_error
    assert noise.difference is not None
    assert abs(noise.difference.nats) < 3 * noise.difference.standard_error
    assert copy.difference is not None
    assert abs(copy.difference.nats) < 1e-4


def test_the_order_of_options_and_of_instances_does_not_matter() -> None:
    features_OF, options, instances, _ = random_problem(sources=20, instances=60, features=2)
    nats = mean_loss(hold_out({"a": features_OF[:, 0]}, options, instances).losses_I, instances)
    # Each source's options the other way round, and the instances, too.
    turned_O = np.concatenate([np.arange(options.offsets[s], options.offsets[s + 1])[::-1] for s in range(20)])
    place_O = np.argsort(turned_O)
    rights = [
        place_O[instances.right_R[instances.offsets[i] : instances.offsets[i + 1]]] for i in range(len(instances))
    ][::-1]
    turned = replace(
        instances,
        source_I=instances.source_I[::-1],
        offsets=offsets_of(np.array([len(some) for some in rights])),
        right_R=np.concatenate(rights),
        weight_I=instances.weight_I[::-1],
    )
    again = hold_out({"a": features_OF[turned_O, 0]}, options, turned)
    assert mean_loss(again.losses_I, turned) == pytest.approx(nats, abs=1e-9)


def test_the_standard_error() -> None:
    _, _, instances, _ = random_problem(sources=5, instances=12, features=1)
    change_I = np.random.default_rng(3).normal(size=12)
    apart = replace(instances, source_I=np.arange(12), sentence_I=None, weight_I=np.ones(12))
    found = difference(change_I, apart)
    assert found.nats == pytest.approx(change_I.mean())
    assert found.standard_error == pytest.approx(change_I.std(ddof=1) / np.sqrt(12))
    # The same instance twice, of the same source, tells nothing new; a count of 2 is the same.
    twice = replace(
        apart, source_I=np.repeat(np.arange(12), 2), weight_I=np.ones(24), sentence_I=np.arange(24)
    )  # fmt: skip
    assert difference(np.repeat(change_I, 2), twice).standard_error == pytest.approx(found.standard_error)
    counted = replace(apart, weight_I=2 * np.ones(12))
    assert difference(change_I, counted).standard_error == pytest.approx(found.standard_error)
    # One sentence alone tells nothing of others; of several the larger error counts.
    together = replace(apart, sentence_I=np.zeros(12, np.int64))
    assert difference(change_I, together).standard_error == pytest.approx(found.standard_error)
    pairs = replace(apart, sentence_I=np.arange(12) // 2)
    by_pairs = change_I.reshape(6, 2).mean(axis=1).std(ddof=1) / np.sqrt(6)
    assert difference(change_I, pairs).standard_error == pytest.approx(max(found.standard_error, by_pairs))


def test_too_few_sources() -> None:
    features_OF, options, instances, _ = random_problem(sources=20, instances=60, features=1)
    one = instances.where(instances.source_I == instances.source_I[0])
    with pytest.raises(UserError, match="choices among the options of 1 sources, too few to fit on some and test"):
        hold_out({"a": features_OF[:, 0]}, options, one)


def test_the_mini_corpus() -> None:
    dev = DevText.read(ParallelText(MINI / "dev.en", MINI / "dev.fr"))
    problem = ChoiceProblem.read(MINI / "phrase-table.5.gz", dev, 4, MINI / "lm.fr.arpa")
    said: list[str] = []
    problem.describe(said.append)
    assert said == ["1,267 choices among the options of 305 sources, in 100 of 100 sentences"]
    column = {"column 5": problem.options.columns_OC[:, 4]}
    base, row = compare(problem.base, column, problem.options, problem.instances)
    assert base.nats == pytest.approx(0.57293362, abs=1e-6)
    assert row.nats == pytest.approx(0.57206603, abs=1e-6)
    assert row.weights["column 5"] == pytest.approx(-0.01696, abs=1e-4)
    assert row.difference is not None
    assert row.difference.standard_error == pytest.approx(0.00097871, abs=1e-6)
    # One of the figures by loops: what it costs to choose by chance.
    choices = [
        Choice(
            [[0.0]] * int(problem.options.offsets[source + 1] - problem.options.offsets[source]),
            set(range(int(problem.instances.offsets[i + 1] - problem.instances.offsets[i]))),
            1.0,
        )
        for i, source in enumerate(problem.instances.source_I)
    ]
    chance = hold_out({"nothing": np.zeros(len(problem.options.targets))}, problem.options, problem.instances)
    assert chance.losses_I == pytest.approx([loss_of(choice, [0.0]) for choice in choices])
