from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.sparse import csr_array

from moses_integration.expected_bleu.fitting import (
    L2_VALUES,
    Objective,
    fit,
    index_features,
    sample_held_out,
    standardised,
    train,
)
from moses_integration.expected_bleu.nbest_lists import NbestLists, Pair
from moses_integration.tuning.bleu import bleu_statistics, smoothed_bleu
from phrasescore.errors import UserError
from phrasescore.phrases import offsets_of
from phrasescore.scoring.phrase_pair_model import features_of

WORDS = [b"a", b"b", b"c", b"d"]


def random_lists(number: int, seed: int = 1) -> NbestLists:
    """Return n-best lists of random word-by-word translations of four-word sentences.

    The base features are noise; correct pairs are the same in all sentences.
    """
    draw = np.random.default_rng(seed)
    pairs: list[Pair] = [(source, target) for source in WORDS for target in (source.upper(), b"x", b"y")]
    features, statistics, sizes, uses = [], [], [], []
    for _ in range(number):
        sentence = draw.integers(0, len(WORDS), 4)
        size = int(draw.integers(1, 8))
        chosen = draw.integers(0, 3, (size, 4)) + 3 * sentence
        texts = [b" ".join(pairs[pair][1] for pair in row) for row in chosen]
        statistics.append(bleu_statistics([b" ".join(WORDS[word].upper() for word in sentence)], texts))
        features.append(draw.normal(size=(size, 2)))
        sizes.append(size)
        uses.append(chosen.ravel())
    hypotheses = sum(sizes)
    return NbestLists(
        np.concatenate(features).astype(np.float32),
        np.concatenate(statistics),
        offsets_of(np.array(sizes)),
        csr_array(
            (np.ones(4 * hypotheses, np.float32), np.concatenate(uses), offsets_of(np.full(hypotheses, 4))),
            shape=(hypotheses, len(pairs)),
        ),
        pairs,
        np.arange(number),
    )


def objective(lists: NbestLists) -> tuple[Objective, NDArray[np.uint64]]:
    keys_K, features_PK = index_features(lists.pairs)
    return Objective(lists, features_PK, np.array([0.5, -0.5]), np.float64), keys_K


def test_pairs_have_the_features_that_they_have() -> None:
    pairs = [(b"a b", b"c c"), (b"a", b""), (b"", b"c")]
    keys_K, features_PK = index_features(pairs)
    bags = features_of(*zip(*pairs, strict=True))
    assert keys_K.tolist() == sorted({*bags.keys_K.tolist()})
    for number, row in enumerate(features_PK.toarray()):
        bag = bags.keys_K[bags.offsets[number] : bags.offsets[number + 1]].tolist()
        assert row.tolist() == [bag.count(key) for key in keys_K.tolist()]


def test_expected_bleu_is_that_of_the_equation() -> None:
    lists = random_lists(5)
    objective_, keys_K = objective(lists)
    parameters_V = np.random.default_rng(2).normal(size=2 + len(keys_K))
    weights_F, v = parameters_V[:2], dict(zip(keys_K.tolist(), parameters_V[2:].tolist(), strict=True))
    f = [sum(v[key] for key in features_of([s], [t]).keys_K.tolist()) for s, t in lists.pairs]
    expected = []
    for first, end in zip(lists.offsets[:-1], lists.offsets[1:], strict=True):
        z = [lists.features_HF[h] @ weights_F + lists.uses_HP.toarray()[h] @ f for h in range(first, end)]
        p = np.exp(z) / np.exp(z).sum()
        expected.append(p @ smoothed_bleu(lists.statistics_H9[first:end]))
    assert objective_.quality(parameters_V).expected == pytest.approx(100 * np.mean(expected))
    costs = 0.01 * (parameters_V[2:] ** 2).sum() + 1e-6 * ((weights_F - [0.5, -0.5]) ** 2).sum()
    assert objective_.loss(parameters_V, 0.01)[0] == pytest.approx(costs - np.mean(expected))


def test_the_gradient_is_that_of_the_loss() -> None:
    objective_, keys_K = objective(random_lists(6))
    parameters_V = np.random.default_rng(3).normal(size=2 + len(keys_K))
    _, gradient_V = objective_.loss(parameters_V, 0.01)
    step = 1e-6
    for place in range(len(parameters_V)):
        there_V = np.zeros(len(parameters_V))
        there_V[place] = step
        losses = [objective_.loss(parameters_V + sign * there_V, 0.01)[0] for sign in (1, -1)]
        assert gradient_V[place] == pytest.approx((losses[0] - losses[1]) / (2 * step), abs=1e-9, rel=1e-6)


def test_parts_of_lists_are_lists() -> None:
    lists = random_lists(7)
    is_taken_L = np.array([True, False, False, True, True, False, True])
    part = lists.where(is_taken_L)
    assert len(part) == 4
    _, keys_K = objective(lists)
    parameters_V = np.random.default_rng(4).normal(size=2 + len(keys_K))
    parts = [lists.where(np.arange(7) == number) for number in np.flatnonzero(is_taken_L)]
    each = [objective(one)[0].quality(parameters_V).expected for one in parts]
    assert objective(part)[0].quality(parameters_V).expected == pytest.approx(np.mean(each))


def test_expected_bleu_rises() -> None:
    """Training raises expected BLEU on the training lists close to that of their best translations."""
    lists = random_lists(60)
    objective_, _ = objective(lists)
    found = fit(objective_, objective_, 1e-6)
    oracle = 100 * np.mean(np.maximum.reduceat(objective_.bleu_H, lists.offsets[:-1]))
    before = objective_.quality(objective_.start_V).expected
    assert before < found.quality.expected <= oracle
    assert oracle - found.quality.expected < 0.1 * (oracle - before)


def test_the_last_parameters_are_evaluated(monkeypatch: pytest.MonkeyPatch) -> None:
    """The last parameters are evaluated even if no evaluation took place before."""
    monkeypatch.setattr("moses_integration.expected_bleu.fitting._CHECK_EVERY", 1000)
    objective_, _ = objective(random_lists(60))
    found = fit(objective_, objective_, 1e-6)
    assert found.iterations > 0
    assert found.quality.expected > objective_.quality(objective_.start_V).expected


def test_whole_groups_are_held_out() -> None:
    """Whole groups are held out, about a tenth of the sentences; of two large groups, the smaller one."""
    assert [sample_held_out(np.arange(50), seed).sum() for seed in (1, 2)] == [5, 5]
    assert sample_held_out(np.arange(50), 1).tolist() != sample_held_out(np.arange(50), 2).tolist()
    group_L = np.array([*[0] * 60, *np.repeat(np.arange(1, 11), 4)])
    is_held_L = sample_held_out(group_L, 1)
    assert is_held_L.sum() == 8
    assert len({*group_L[is_held_L].tolist()}) == 2
    assert sample_held_out(np.array([0, 0, 0, 1, 1]), 1).tolist() == [False, False, False, True, True]


def test_training_finds_the_right_pairs() -> None:
    lists = random_lists(200)
    told: list[str] = []
    trained = train(lists, np.array([0.5, -0.5]), log=told.append)
    assert trained.after.expected > trained.before.expected + 10
    assert trained.after.best > trained.before.best
    assert len(told) == 1 + len(L2_VALUES)
    assert f"l2 {trained.l2:g}: expected BLEU {trained.after.expected:.2f}" in "".join(told)
    values = trained.model.values(features_of(*zip(*lists.pairs, strict=True))).reshape(4, 3)
    assert (values[:, 0] > values[:, 1:].max(axis=1)).all()
    assert 0 < trained.weight < np.inf
    again = train(lists, np.array([0.5, -0.5]))
    assert again.model.weights_F.tolist() == trained.model.weights_F.tolist()


def test_a_feature_that_is_constant_within_lists_has_no_effect() -> None:
    """A feature that is constant within each n-best list has no effect, however large its weight."""
    lists = random_lists(200)
    penalty_L = -100.0 * np.random.default_rng(5).integers(0, 3, 200)
    penalty_H = np.repeat(penalty_L, np.diff(lists.offsets)).astype(np.float32)
    wider = replace(lists, features_HF=np.column_stack((lists.features_HF, penalty_H)))
    scaled, deviation_F = standardised(wider)
    assert deviation_F[:2] == pytest.approx([1, 1], abs=0.2)
    assert deviation_F[2] == 0
    assert not scaled.features_HF[:, 2].any()
    assert np.add.reduceat(scaled.features_HF, scaled.offsets[:-1]) == pytest.approx(np.zeros((200, 3)), abs=1e-5)
    without, found = train(lists, np.array([0.5, -0.5])), train(wider, np.array([0.5, -0.5, 1.0]))
    assert found.weight == pytest.approx(without.weight, rel=1e-3)
    assert found.after.expected == pytest.approx(without.after.expected, abs=0.1)


def test_f_is_0_if_there_is_nothing_to_choose() -> None:
    """f is 0 if each n-best list has one translation."""
    lists = random_lists(200)
    is_alone_L = np.diff(lists.offsets) == 1
    trained = train(lists.where(is_alone_L), np.array([0.5, -0.5]))
    assert len(trained.model.keys_F) == 0
    assert trained.after == trained.before


def test_a_few_lists_are_too_few() -> None:
    with pytest.raises(UserError, match="9 sentences were translated, too few"):
        train(random_lists(9), np.ones(2))


def test_lists_that_are_useless_for_training() -> None:
    lists = random_lists(20)
    nothing_HP = csr_array((len(lists.features_HF), 0), dtype=np.float32)
    with pytest.raises(UserError, match="no phrase pair was used in any translation"):
        train(replace(lists, uses_HP=nothing_HP, pairs=[]), np.array([0.5, -0.5]))
    with pytest.raises(UserError, match="20 sentences were translated, too few to train on"):
        train(replace(lists, group_L=np.zeros(20, np.int64)), np.array([0.5, -0.5]))
