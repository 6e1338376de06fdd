from __future__ import annotations

import functools
from collections.abc import Sequence
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from moses_integration.tuning import mert
from moses_integration.tuning.bleu import bleu, smoothed_bleu
from moses_integration.tuning.candidates import Candidates
from moses_integration.tuning.mert import (
    NARROWEST,
    Lists,
    Objective,
    Optimum,
    Point,
    evaluate,
    line_search,
    optimise,
    upper_envelopes,
)
from phrasescore.errors import UserError
from tests.conftest import MINI
from tests.moses_integration.tuning.extractor import mert_lists

Floats = NDArray[np.float64]


GOOD, BAD = [6, 6, 5, 5, 4, 4, 3, 3, 6], [2, 6, 1, 5, 1, 4, 1, 3, 6]


@functools.cache
def moses_lists(run: int) -> Candidates:
    """Return all candidates up to an iteration, as Moses' `mert` had them."""
    return moses_lists(run - 1).extended(mert_lists(run)) if run > 1 else mert_lists(run)


def weights_in(name: str) -> Floats:
    """Return the weights of the first line of Moses' weights file."""
    return np.array((MINI / "mert" / name).read_text().split("\n")[0].split(), np.float64)


def candidates_of(
    features: Sequence[Sequence[Sequence[float]]], statistics: Sequence[Sequence[Sequence[int]]]
) -> Candidates:
    width = max(len(row) for rows in features for row in rows)
    return Candidates.from_lists(
        [f"F0_{index}" for index in range(width)],
        [np.array(rows, np.float64).reshape(-1, width) for rows in features],
        [np.array(rows, np.int32).reshape(-1, 9) for rows in statistics],
    )


def random_candidates(seed: int, sentences: int, longest: int, features: int, step: float = 0.25) -> Candidates:
    """Return random candidates with many ties: features are small multiples of `step`."""
    generator = np.random.default_rng(seed)
    lengths = generator.integers(1, longest + 1, sentences)
    statistics = []
    for length in lengths:
        totals = generator.integers(4, 9, length)[:, np.newaxis] - np.arange(4)
        matches = generator.integers(1, totals + 1)
        statistics.append(np.stack([matches, totals], axis=2).reshape(length, 8).tolist())
        statistics[-1] = [[*row, 6] for row in statistics[-1]]
    return candidates_of([(generator.integers(-6, 7, (n, features)) * step).tolist() for n in lengths], statistics)


def value_at(candidates: Candidates, heights: Floats, slopes: Floats, x: float, objective: Objective = bleu) -> float:
    """Return the objective of each sentence's first best candidate at a point on the line."""
    spans = [candidates.of_sentence(s) for s in range(candidates.sentence_count)]
    best = [span.start + int((heights[span] + x * slopes[span]).argmax()) for span in spans]
    return float(objective(candidates.statistics_C9[best].sum(axis=0)))


def naive_line_search(candidates: Candidates, heights: Floats, slopes: Floats) -> float:
    """Return the best value between neighbouring intersections of all pairs of lines of a sentence."""
    crossings = {
        (heights[j] - heights[i]) / (slopes[i] - slopes[j])
        for s in range(candidates.sentence_count)
        for i in range(*candidates.of_sentence(s).indices(len(candidates)))
        for j in range(*candidates.of_sentence(s).indices(len(candidates)))
        if slopes[i] != slopes[j]
    }
    places = [-1e3, *sorted(crossings), 1e3]
    wide = [(a + b) / 2 for a, b in pairwise(places) if b - a > NARROWEST]
    return max(value_at(candidates, heights, slopes, x) for x in wide)


def search_line(lists: Lists, weights_F: Floats, direction_F: Floats, objective: Objective) -> tuple[float, float]:
    [found] = line_search(lists, Point.at(weights_F, lists, objective), direction_F[np.newaxis], objective)
    return found


@pytest.mark.parametrize(("run", "reported"), [(1, 0.970357), (2, 0.970357), (3, 0.971214)])
def test_moses_weights_have_the_bleu_that_moses_reported(run: int, reported: float) -> None:
    assert evaluate(moses_lists(run), weights_in(f"run{run}.weights.txt")) == pytest.approx(reported, abs=5e-7)


@pytest.mark.parametrize(("run", "reported"), [(1, 0.970357), (2, 0.970357), (3, 0.971214)])
def test_the_optimum_is_as_good_as_moses(run: int, reported: float) -> None:
    start_F = weights_in(f"run{run}.init.opt")
    found = optimise(moses_lists(run), start_F[np.newaxis], seed=run * 1000)
    assert found.bleu > reported - 0.0005
    assert found.bleu == evaluate(moses_lists(run), found.weights_F)
    assert evaluate(moses_lists(run), start_F) < found.bleu
    assert np.abs(found.weights_F).sum() == pytest.approx(1)


@given(st.integers(0, 10**9), st.booleans(), st.data())
def test_the_line_search_is_exact(seed: int, along_an_axis: bool, data: st.DataObject) -> None:
    candidates = random_candidates(seed, sentences=3, longest=7, features=3)
    quarters = st.integers(-8, 8).map(lambda n: n / 4)
    weights_F = np.array(data.draw(st.tuples(quarters, quarters, quarters)))
    direction_F = np.eye(3)[seed % 3] if along_an_axis else np.array(data.draw(st.tuples(quarters, quarters, quarters)))
    # Multiples of 1/16, so heights and slopes are exact and ties are ties.
    heights, slopes = candidates.features_CF @ weights_F, candidates.features_CF @ direction_F
    value, step = search_line(Lists(candidates), weights_F, direction_F, bleu)
    assert value == pytest.approx(naive_line_search(candidates, heights, slopes), rel=1e-12)
    assert value == pytest.approx(value_at(candidates, heights, slopes, step), rel=1e-12)


@settings(max_examples=30)
@given(st.integers(0, 10**9))
def test_the_line_search_finds_what_a_fine_grid_finds(seed: int) -> None:
    generator = np.random.default_rng(seed)
    candidates = random_candidates(seed, sentences=4, longest=30, features=4)
    candidates.features_CF[:] += generator.normal(size=candidates.features_CF.shape)
    weights_F, direction_F = generator.normal(size=(2, 4))
    heights, slopes = candidates.features_CF @ weights_F, candidates.features_CF @ direction_F
    lists = Lists(candidates)
    for objective in (bleu, smoothed_bleu):
        value, step = search_line(lists, weights_F, direction_F, objective)
        grid = [value_at(candidates, heights, slopes, x, objective) for x in np.linspace(-3, 3, 200)]
        assert value >= max(grid) - 1e-12
        assert value == pytest.approx(value_at(candidates, heights, slopes, step, objective), rel=1e-12)


def test_the_size_of_the_weights_that_a_search_starts_from_does_not_matter() -> None:
    candidates, starts_NF = random_candidates(3, sentences=3, longest=7, features=3), np.array([[1.0, 0.5, 0.25]])
    found, other = (optimise(candidates, starts_NF * size, restarts=0) for size in (1.0, 1024.0))
    assert found.weights_F.tolist() == other.weights_F.tolist()


small = st.integers(-3, 3).map(float)


@given(st.lists(st.lists(st.tuples(small, small), min_size=1, max_size=12), min_size=1, max_size=4))
def test_the_envelope_is_the_highest_line_everywhere(sentences: list[list[tuple[float, float]]]) -> None:
    # Statistics differ, because a list holds equal candidates only once.
    candidates = candidates_of(sentences, [[[*GOOD[:8], i] for i in range(len(lines))] for lines in sentences])
    lists, slope_F, height_F = Lists(candidates), np.array([1.0, 0.0]), np.array([0.0, 1.0])
    [lines] = lists.lines(Point.at(height_F, lists, bleu).ranked, slope_F[np.newaxis])
    kept = upper_envelopes(lines)
    groups = np.split(np.arange(len(kept.starts_L)), kept.starts_L.nonzero()[0])[1:]
    rights, lefts = groups[: len(sentences)], groups[len(sentences) :]
    for s, (lines_of_s, right, left) in enumerate(zip(sentences, rights, lefts, strict=True)):
        for sign, group in ((1, right), (-1, left)):
            slopes, heights = kept.slope_L[group], kept.height_L[group]
            for x in sign * np.linspace(0, 7, 29):
                assert (heights + x * slopes).max() == max(h + x * m for m, h in lines_of_s)
            # The envelope is minimal: lines become steeper, and each is the best from a later corner on.
            corners = -np.diff(heights) / np.diff(slopes)
            assert (np.diff(sign * slopes) > 0).all()
            assert (np.diff(sign * corners) > 0).all()
            # Of identical lines, the first is kept.
            first = candidates.of_sentence(s).start
            found = [lines_of_s.index((m, h)) for m, h in zip(slopes.tolist(), heights.tolist(), strict=True)]
            assert (kept.candidate_L[group] - first).tolist() == found


def test_parts_do_not_matter(monkeypatch: pytest.MonkeyPatch) -> None:
    candidates = random_candidates(1, sentences=40, longest=25, features=3)
    weights_F, whole = np.array([0.25, -0.5, 1.0]), Lists(candidates)
    monkeypatch.setattr(mert, "PART_CANDIDATES", 60)
    split = Lists(candidates)
    assert len(whole.parts) == 1
    assert len(split.parts) > 5
    for direction_F in (*np.eye(3), np.array([1.0, 2.0, -1.0])):
        assert search_line(whole, weights_F, direction_F, bleu) == search_line(split, weights_F, direction_F, bleu)


def test_the_hidden_solution_is_found() -> None:
    """Tuning recovers hidden weights: the candidates that they prefer match the references, all others do not."""
    generator = np.random.default_rng(5)
    hidden_F = np.array([0.4, 0.3, -0.2, 0.1])
    features_SKF = generator.normal(size=(60, 20, 4))
    statistics_SK9 = np.full((60, 20, 9), [2, 8, 1, 7, 1, 6, 1, 5, 8])
    best_S = (features_SKF @ hidden_F).argmax(axis=1)
    statistics_SK9[np.arange(60), best_S] = [8, 8, 7, 7, 6, 6, 5, 5, 8]
    candidates = candidates_of(features_SKF.tolist(), statistics_SK9.tolist())
    found = optimise(candidates, np.array([[0.25, 0.25, 0.25, 0.25]]), restarts=5)
    assert evaluate(candidates, np.full(4, 0.25)) < 0.7
    assert found.bleu > 0.98
    np.testing.assert_allclose(found.weights_F, hidden_F, atol=0.05)


def same(first: Optimum, second: Optimum) -> bool:
    return bool((first.weights_F == second.weights_F).all()) and first.bleu == second.bleu


def test_a_seed_gives_one_result() -> None:
    candidates = random_candidates(2, sentences=30, longest=20, features=5, step=0.01)
    starts_NF = np.full((1, 5), 0.2)
    results = [optimise(candidates, starts_NF, restarts=3, seed=s, directions=2) for s in (1, 1, 2)]
    assert same(results[0], results[1])
    assert not same(results[0], results[2])


@pytest.mark.parametrize("without_4_grams", [False, True])
def test_processes_do_not_matter(without_4_grams: bool) -> None:
    candidates = random_candidates(3, sentences=10, longest=8, features=3)
    if without_4_grams:
        candidates.statistics_C9[:, 6] = 0
    alone, together = (
        optimise(candidates, np.ones((1, 3)), restarts=4, seed=7, directions=3, processes=n) for n in (1, 2)
    )
    assert same(alone, together)
    assert (alone.bleu == 0) == without_4_grams


@settings(max_examples=30)
@given(st.integers(0, 10**6))
@example(3523)  # Scaling the weights breaks a tie of two candidates.
def test_more_starts_and_directions_never_hurt(seed: int) -> None:
    candidates = random_candidates(seed, sentences=5, longest=8, features=3)
    starts_NF = np.random.default_rng(seed).normal(size=(2, 3))
    one = optimise(candidates, starts_NF[:1], restarts=0, directions=0)
    assert one.bleu >= evaluate(candidates, starts_NF[0])
    assert optimise(candidates, starts_NF, restarts=0, directions=0).bleu >= one.bleu
    assert optimise(candidates, starts_NF[:1], restarts=0, directions=3).bleu >= one.bleu


def test_random_directions_lead_out_of_corners() -> None:
    starts_NF = weights_in("run2.init.opt")[np.newaxis]
    axes, more = (optimise(moses_lists(2), starts_NF, restarts=0, directions=n) for n in (0, 30))
    assert more.bleu > axes.bleu


def test_without_any_4_gram_the_smoothed_bleu_decides() -> None:
    better, worse = [5, 6, 3, 5, 1, 4, 0, 3, 6], [2, 6, 1, 5, 0, 4, 0, 3, 6]
    candidates = candidates_of([[[1, 0], [0, 1]]] * 2, [[worse, better]] * 2)
    found = optimise(candidates, np.array([[0.8, 0.2]]), restarts=3)
    assert found.bleu == 0
    assert found.weights_F[1] > found.weights_F[0]
    # If that is equal too, the start is kept.
    flat = optimise(candidates_of([[[1, 0], [0, 1]]], [[worse, worse]]), np.array([[4.0, 1.0]]), restarts=3)
    assert flat.weights_F.tolist() == [0.8, 0.2]


def test_one_candidate_per_sentence_leaves_the_start() -> None:
    found = optimise(candidates_of([[[1, 2]], [[3, 4]]], [[GOOD], [BAD]]), np.array([[3.0, -1.0]]), restarts=3)
    assert found.weights_F.tolist() == [0.75, -0.25]
    assert found.bleu == pytest.approx(bleu(np.array(GOOD) + np.array(BAD)))


def test_a_constant_feature_keeps_its_share() -> None:
    candidates = candidates_of([[[7, 1, 0], [7, 0, 1]]], [[BAD, GOOD]])
    found = optimise(candidates, np.array([[0.5, 0.3, 0.2]]), restarts=0)
    assert found.bleu == 1
    # The interval begins where the two weights are equal; one weight was moved 0.1 past that point.
    assert found.weights_F == pytest.approx(np.array([0.5, 0.1, 0.2]) / 0.8)


def test_a_sentence_without_candidates_has_no_part() -> None:
    features, statistics = [[[1, 0], [0, 1]], [[2, 0], [0, 1]]], [[BAD, GOOD], [BAD, GOOD]]
    full = candidates_of(features, statistics)
    gaps = candidates_of([[], features[0], [], features[1], []], [[], statistics[0], [], statistics[1], []])
    starts_NF = np.array([[0.6, 0.4]])
    assert same(optimise(full, starts_NF, restarts=2), optimise(gaps, starts_NF, restarts=2))


def test_the_first_of_equally_good_candidates_counts() -> None:
    candidates = candidates_of([[[1, 0], [1, 0], [0, 1]]], [[GOOD, BAD, BAD]])
    assert evaluate(candidates, np.array([1.0, 1.0])) == 1
    assert evaluate(candidates, np.array([0.0, 1.0])) < 1
    assert search_line(Lists(candidates), np.array([0.0, 1.0]), np.array([1.0, 0.0]), bleu)[0] == 1


def test_faulty_arguments() -> None:
    candidates = candidates_of([[[1, 0]]], [[GOOD]])
    with pytest.raises(UserError, match="are not 2 finite numbers"):
        optimise(candidates, np.ones((1, 3)))
    with pytest.raises(UserError, match="are not 2 finite numbers"):
        optimise(candidates, np.array([[1.0, np.nan]]))
    nobody = Candidates.from_lists(["A_0", "A_1"], [np.empty((0, 2))], [np.empty((0, 9), np.int32)])
    with pytest.raises(UserError, match="have no candidates at all"):
        optimise(nobody, np.ones((1, 2)))
