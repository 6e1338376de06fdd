from __future__ import annotations

import numpy as np
import pytest

from experiments.qualitative.ranking import accuracy, area_under_curve, best_threshold, mean_reciprocal_rank


def test_the_rank_of_the_first_of_the_own_group() -> None:
    vectors = np.array([[1, 0], [0.9, 0.1], [0.8, 0.3], [0, 1]], np.float32)
    # 0 finds 1 (wrong) before 2; 2 finds 1 before 0; 1 and 3 have no correct neighbour.
    assert mean_reciprocal_rank(vectors, np.array([5, 6, 5, 7])) == pytest.approx(0.5)
    assert mean_reciprocal_rank(vectors, np.array([5, 5, 6, 6])) == pytest.approx((1 + 1 + 1 / 3 + 1) / 4)


def test_ignored_candidates_are_not_ranked() -> None:
    vectors = np.array([[1, 0], [0.9, 0.1], [0.8, 0.3]], np.float32)
    ignored = [np.array([1]), np.array([], np.int64), np.array([1])]
    assert mean_reciprocal_rank(vectors, np.array([5, 6, 5]), ignored) == 1


def test_vectors_that_tell_nothing_gain_nothing() -> None:
    group = np.repeat(np.arange(50), 2)
    assert mean_reciprocal_rank(np.ones((100, 3), np.float32), group) == pytest.approx(1 / 99)


def test_many_queries_are_the_same_as_few() -> None:
    random = np.random.default_rng(1)
    vectors = random.standard_normal((700, 6)).astype(np.float32)
    group = random.integers(0, 30, 700)
    unit = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    expected = []
    for query in range(700):
        order = [i for i in np.argsort(-(unit @ unit[query])) if i != query]
        expected.append(1 / (1 + [group[i] == group[query] for i in order].index(True)))
    assert mean_reciprocal_rank(vectors, group) == pytest.approx(np.mean(expected), abs=1e-3)


def test_accuracy_and_area_count_ties_half() -> None:
    assert accuracy(np.array([1.0, 2, 3, 4]), np.array([0.0, 2, 4, 3])) == pytest.approx(2.5 / 4)
    true, false = np.array([1.0, 2, 2]), np.array([0.0, 2])
    expected = np.mean([(t > f) + 0.5 * (t == f) for t in true for f in false])
    assert area_under_curve(true, false) == pytest.approx(expected)


def test_the_threshold_lies_between() -> None:
    true, false = np.array([-1.0, -2, -3]), np.array([-5.0, -9, -2.5])
    threshold = best_threshold(true, false)
    gain = (false < threshold).mean() - (true < threshold).mean()
    assert gain == max((false < t).mean() - (true < t).mean() for t in np.linspace(-10, 0, 1001))
    assert -5 < best_threshold(np.array([-1.0, -2]), np.array([-5.0, -6])) < -2
