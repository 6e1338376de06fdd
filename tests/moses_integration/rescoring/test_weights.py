"""Weights that maximise the expected BLEU of n-best lists."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from numpy.typing import NDArray

from moses_integration.nbest import ListFault
from moses_integration.rescoring.weights import StandardisedLists, maximise_expected_bleu, smooth_bleu
from moses_integration.tuning.bleu import bleu, bleu_statistics
from moses_integration.tuning.candidates import Candidates
from moses_integration.tuning.mert import evaluate

REFERENCE = b"a b c d e f g h"


def random_candidates(sentences: int, noise: int, seed: int = 1) -> Candidates:
    """Return lists of translations with wrong words; feature 0 is minus their number, the others are noise."""
    draw = np.random.default_rng(seed)
    features, statistics = [], []
    for _ in range(sentences):
        wrong_KT = draw.random((int(draw.integers(2, 9)), 8)) < draw.random()
        words = REFERENCE.split()
        texts = [b" ".join(b"x" if one else word for one, word in zip(row, words, strict=True)) for row in wrong_KT]
        features.append(np.column_stack((-wrong_KT.sum(axis=1), draw.normal(size=(len(texts), noise)))))
        statistics.append(bleu_statistics([REFERENCE], texts))
    return Candidates.from_lists([f"F_{number}" for number in range(noise + 1)], features, statistics)


def test_the_loss_is_that_of_the_equation() -> None:
    candidates = random_candidates(6, 2)
    lists, deviation_F = StandardisedLists.standardised(candidates)
    weights_F = np.array([0.5, -1.0, 2.0])
    expected_9 = np.zeros(9)
    for sentence in range(6):
        rows = candidates.of_sentence(sentence)
        # The mean of a feature in a list changes no probability.
        power = np.exp(candidates.features_CF[rows] / deviation_F @ weights_F)
        expected_9 += power / power.sum() @ candidates.statistics_C9[rows]
    matches, totals = expected_9[:-1:2] + 1, expected_9[1:-1:2] + 1
    # All translations have the length of the reference.
    value = 100 * (matches / totals).prod() ** 0.25 * 2**-0.001
    assert lists.loss(weights_F, 0.3)[0] == pytest.approx(0.3 * 5.25 - value)


def test_the_gradient_is_that_of_the_loss() -> None:
    lists, _ = StandardisedLists.standardised(random_candidates(6, 2))
    weights_F, step = np.array([0.5, -1.0, 2.0]), 1e-5
    _, gradient_F = lists.loss(weights_F, 0.3)
    for feature in range(3):
        there_F = step * np.eye(3)[feature]
        higher, lower = (lists.loss(weights_F + sign * there_F, 0.3)[0] for sign in (1, -1))
        assert gradient_F[feature] == pytest.approx((higher - lower) / (2 * step), rel=1e-6)


@pytest.mark.parametrize("words", [900, 990, 1000, 1010, 1100])
def test_smooth_bleu_is_close_to_bleu_and_has_a_gradient(words: int) -> None:
    statistics_9 = np.array([700, words, 500, words - 100, 300, words - 200, 200, words - 300, 1000])
    value, by_9 = smooth_bleu(statistics_9.astype(np.float64))
    assert value == pytest.approx(100 * float(bleu(statistics_9)), rel=2e-3)
    for place in range(9):
        there_9 = 1e-4 * np.eye(9)[place]
        higher, lower = (smooth_bleu(statistics_9 + sign * there_9)[0] for sign in (1, -1))
        assert by_9[place] == pytest.approx((higher - lower) / 2e-4, abs=1e-6)


def held_out_bleu(weights_F: NDArray[np.float64], noise: int) -> float:
    return evaluate(random_candidates(200, noise, seed=2), weights_F)


def test_an_informative_feature_is_found_among_noise() -> None:
    candidates, best = random_candidates(40, 20), held_out_bleu(np.eye(21)[0], 20)
    found = maximise_expected_bleu(candidates)
    assert np.abs(found.weights_F).sum() == pytest.approx(1)
    assert evaluate(candidates, found.weights_F) >= found.held_out
    assert held_out_bleu(found.weights_F, 20) == pytest.approx(best, abs=0.02)
    assert found.held_out == pytest.approx(best, abs=0.1)


def test_the_penalty_limits_overfitting(monkeypatch: pytest.MonkeyPatch) -> None:
    candidates = random_candidates(40, 40)
    found = maximise_expected_bleu(candidates)
    monkeypatch.setattr("moses_integration.rescoring.weights.L2_VALUES", (1e-9,))
    assert held_out_bleu(maximise_expected_bleu(candidates).weights_F, 40) + 0.01 < held_out_bleu(found.weights_F, 40)


def test_the_optimum_is_that_of_all_lists() -> None:
    candidates = random_candidates(12, 2)
    found = maximise_expected_bleu(candidates)
    lists, deviation_F = StandardisedLists.standardised(candidates)
    scale = (2 * found.l2 * np.abs(found.weights_F * deviation_F)).max()
    # The gradient is 0 at some multiple of the weights.
    sizes = np.geomspace(0.1, 1000, 2000)
    gradients = [np.abs(lists.loss(size * found.weights_F * deviation_F, found.l2)[1]).max() for size in sizes]
    assert min(gradients) < 0.05 * scale * sizes[int(np.argmin(gradients))]


def test_parallel_searches_find_the_same() -> None:
    candidates = random_candidates(12, 2)
    one, two = (maximise_expected_bleu(candidates, processes) for processes in (1, 2))
    assert one.weights_F.tolist() == two.weights_F.tolist()
    assert (one.held_out, one.l2) == (two.held_out, two.l2)


@pytest.mark.parametrize("extreme", [-1e3, -1e9])
def test_extreme_values_do_not_hide_the_others(extreme: float) -> None:
    candidates = random_candidates(40, 2)
    worst = candidates.features_CF[:, 0].argsort()[:5]
    candidates.features_CF[worst, 0] = extreme
    assert held_out_bleu(maximise_expected_bleu(candidates).weights_F, 2) > held_out_bleu(np.eye(3)[0], 2) - 0.01


def test_large_constants_of_a_sentence_do_not_hide_the_others() -> None:
    candidates = random_candidates(40, 0)
    candidates.features_CF[candidates.of_sentence(3), 0] = 1e9
    assert maximise_expected_bleu(candidates).weights_F.tolist() == [1.0]


def test_empty_translations() -> None:
    rows = bleu_statistics([b"a"], [b"", b""])
    candidates = Candidates.from_lists(["F_0"], [np.array([[0.0], [1.0]])] * 2, [rows] * 2)
    found = maximise_expected_bleu(candidates)
    assert found.held_out == 0
    assert np.isfinite(found.weights_F).all()


def test_units_of_features_do_not_matter() -> None:
    candidates = random_candidates(20, 2)
    factor_F = np.array([1000.0, 1.0, 0.001])
    scaled = replace(candidates, features_CF=candidates.features_CF * factor_F + 5)
    weights, scaled_weights = (maximise_expected_bleu(one).weights_F for one in (candidates, scaled))
    assert scaled_weights[0] / scaled_weights[1] * 1000 == pytest.approx(weights[0] / weights[1], rel=1e-3)
    assert scaled_weights[2] / scaled_weights[1] / 1000 == pytest.approx(weights[2] / weights[1], rel=1e-3)


def test_a_feature_that_is_constant_in_each_list_has_no_weight() -> None:
    candidates = random_candidates(20, 1)
    sentence_C = np.arange(20).repeat(np.diff(candidates.offsets))
    candidates.features_CF[:, 1] = sentence_C / 3 + 0.1
    assert maximise_expected_bleu(candidates).weights_F.tolist() == [1.0, 0.0]


def test_sentences_without_candidates_do_not_count() -> None:
    candidates = random_candidates(12, 2)
    offsets = np.insert(
        candidates.offsets, [0, 5, len(candidates.offsets)], [0, candidates.offsets[5], len(candidates)]
    )
    with_gaps = maximise_expected_bleu(replace(candidates, offsets=offsets))
    assert with_gaps.weights_F.tolist() == maximise_expected_bleu(candidates).weights_F.tolist()


def test_lists_without_a_choice_are_an_error() -> None:
    candidates = random_candidates(20, 1)
    candidates.features_CF[:] = 0.1
    with pytest.raises(
        ListFault, match="has no feature that differs between the translations of a sentence; give longer"
    ):
        maximise_expected_bleu(candidates)
