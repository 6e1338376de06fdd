"""Minimum error rate training (MERT): find the weights that maximise BLEU of the 1-best candidates of n-best lists.

Och, "Minimum Error Rate Training in Statistical Machine Translation" (ACL 2003). A candidate with the feature values h
has the score w . h. On the line w + x d through weight space its score is itself a straight line,

    height + x * slope,   height = w . h,   slope = d . h,

so a sentence's best candidate changes only at the corners of the upper envelope of its candidates' lines. Corpus BLEU
is constant between adjacent corners of all sentences. One sort and one cumulative sum give BLEU in all these intervals:
an exact line search for a function without gradient. As in Powell's method, each round searches along all axes and
moves to the best point found, until there is no gain; several starts reduce the risk of a poor local optimum.

As in Moses (mert/Optimizer.cpp, mert/mert.cpp), the new point is the middle of the interval, the first of equally good
candidates, intervals and starts wins, and weights are divided by the sum of their magnitudes. Unlike in Moses, starts
are scaled, too; the step beyond the first corner is 0.1 like that beyond the last (1000 in Moses would make the other
weights negligible); corners closer than 0.0001 are not merged and small steps not rounded to 0, so that the reported
BLEU is exact; and random directions are tried only if the axes give no gain.

Array names: S sentences, K candidates of a sentence in a block, C all candidates, F features, 9 statistics, L lines,
B corners (breakpoints) of all sentences, I = B + 1 intervals, D directions, N starts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from operator import attrgetter, itemgetter
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from moses_integration.tuning.bleu import Statistics, bleu, smoothed_bleu
from moses_integration.tuning.candidates import Candidates
from phrasescore.errors import UserError
from phrasescore.workers import map_ordered, start_workers

SMALLEST_GAIN = 1e-4
"""A search ends when a round gains at most this much BLEU."""
OUTER_STEP = 0.1
"""Step beyond the first and the last corner."""
NARROWEST = 1e-6
"""Intervals up to this width are ignored: they may be rounding errors, and weights are written with six decimals."""
BLOCK_CANDIDATES = 16_000
"""Candidates of a block: arrays then fit in the cache and are smaller than 128 KiB, from which size malloc requests new
memory from the system each time."""

Floats = NDArray[np.float64]
Indices = NDArray[np.int64]
_Start = tuple[int, Floats, np.random.SeedSequence]
"""Number, initial weights and seed of a search."""
Objective = Callable[[Statistics], Floats]
"""Maps summed statistics, [..., 9], to non-negative values, [...]."""


@dataclass(frozen=True)
class Optimum:
    """The result of MERT."""

    weights_F: Floats
    """The weights; the sum of their magnitudes is 1."""
    bleu: float
    """BLEU, from 0 to 1, of the 1-best candidates under these weights. If it is 0, because no 4-gram matched at any
    point of the search, the weights maximise smoothed BLEU instead."""


def optimise(
    candidates: Candidates,
    starts_NF: Floats,
    *,
    restarts: int = 20,
    seed: int = 0,
    directions: int = 20,
    processes: int = 1,
) -> Optimum:
    """Return the best weights found by searches from the given starts and from random starts.

    The result does not depend on the number of processes. The first of equally good searches wins, so if nothing
    improves on a start, its weights are returned unchanged, up to their scale.

    Args:
        candidates: the n-best lists; a sentence without candidates is excluded from BLEU.
        starts_NF: initial weights, at least one row.
        restarts: the number of additional random starts, uniform in [0, 1] for each weight.
        seed: of the random numbers.
        directions: the number of random directions to try if the axes give no gain. On 100 sentences, 20 directions
            gain about 0.001 BLEU and take 50 % more time.
        processes: for parallel searches; each process has its own copy of the lists.
    """
    feature_count = len(candidates.names)
    starts_NF = np.asarray(starts_NF, np.float64)
    if not len(candidates):
        raise UserError("n-best lists: have no candidates at all; check what the decoder reported")
    if starts_NF.shape[1:] != (feature_count,) or not np.isfinite(starts_NF).all():
        raise UserError(f"weights to start from: are not {feature_count} finite numbers; give one for each feature")
    drawing, *seeds = np.random.SeedSequence(seed).spawn(1 + len(starts_NF) + restarts)
    drawn_NF = np.random.default_rng(drawing).uniform(size=(restarts, feature_count))
    scaled_NF = map(_scaled, np.concatenate([starts_NF, drawn_NF]))
    starts = list(zip(range(len(seeds)), scaled_NF, seeds, strict=True))
    processes = min(processes, len(starts))
    killed = "searching for weights: a process was killed, probably because memory ran out; use fewer processes"
    with start_workers(killed, processes) as workers:
        for objective in (bleu, smoothed_bleu):
            climb = partial(_best_climb, candidates, objective, directions)
            found = map_ordered(climb, [starts[first::processes] for first in range(processes)], workers)
            value, _, weights_F = max(found, key=itemgetter(0, 1))
            if value > 0:
                break
    return Optimum(weights_F, evaluate(candidates, weights_F))


def evaluate(candidates: Candidates, weights_F: Floats) -> float:
    """Return the BLEU, from 0 to 1, of the 1-best candidates under these weights; the first of equals wins."""
    return _point(Lists(candidates), weights_F, bleu).value


class Lists:
    """The candidates as arrays for the search."""

    def __init__(self, candidates: Candidates) -> None:
        self.statistics_C9 = candidates.statistics_C9
        self.blocks = list(_blocks(candidates))

    def scores(self, weights_F: Floats) -> list[Floats]:
        """Return w . h of every candidate, [S, K] for each block."""
        return [_weighted_sum(weights_F, block.features_FSK) for block in self.blocks]

    def totals(self, scores: Sequence[Floats]) -> Statistics:
        """Return the statistics, [9], of the 1-best candidates, summed over the sentences."""
        best = [
            np.take_along_axis(block.candidates_SK, scores_SK.argmax(axis=1)[:, np.newaxis], axis=1).ravel()
            for block, scores_SK in zip(self.blocks, scores, strict=True)
        ]
        totals: Statistics = self.statistics_C9[np.concatenate(best)].sum(axis=0, dtype=np.int64)
        return totals


def line_search(
    lists: Lists, scores: Sequence[Floats], direction_F: Floats, objective: Objective
) -> tuple[float, float]:
    """Return the maximum of the objective on a line w + x d, and x, the middle of the first interval that has it.

    `scores` are those of the candidates at w, and `direction_F` is d; the search is fastest along an axis.
    """
    lines = _envelopes(lists, scores, direction_F)
    follows = lines.sentence_L[1:] == lines.sentence_L[:-1]
    corner_B = -np.diff(lines.height_L)[follows] / np.diff(lines.slope_L)[follows]
    order_B = corner_B.argsort(kind="stable")
    corner_B = corner_B[order_B]
    # The statistics of the leftmost candidates, followed by the changes at each corner.
    statistics_L9 = lists.statistics_C9[lines.candidate_L]
    leftmost_9 = statistics_L9[np.append(True, ~follows)].sum(axis=0, keepdims=True)
    changes_I9 = np.concatenate([leftmost_9, np.diff(statistics_L9, axis=0)[np.flatnonzero(follows)[order_B]]])
    value_I = objective(changes_I9.cumsum(axis=0))
    if not len(corner_B):
        return float(value_I[0]), 0.0
    value_I[1:-1][np.diff(corner_B) <= NARROWEST] = -1
    step_I = np.concatenate([corner_B[:1] - OUTER_STEP, (corner_B[:-1] + corner_B[1:]) / 2, corner_B[-1:] + OUTER_STEP])
    best = value_I.argmax()
    return float(value_I[best]), float(step_I[best])


class Lines(NamedTuple):
    """The scores of candidates along a direction, ordered by sentence and ascending slope."""

    sentence_L: Indices
    candidate_L: Indices
    slope_L: Floats
    height_L: Floats
    """Score at x = 0."""


def upper_envelopes(lines: Lines) -> Lines:
    """Return the upper envelope of each sentence; of identical lines, keep that of the first candidate.

    The upper envelope of lines is the upper hull of the points (slope, height). A point on or below the chord between
    its neighbours is not in the hull, even if a neighbour is not in the hull either. Each round drops all such points
    of all sentences at once; a few rounds suffice.
    """
    while True:
        together = lines.sentence_L[1:] == lines.sentence_L[:-1]
        run, rise = np.diff(lines.slope_L), np.diff(lines.height_L)
        parallel = together & (run == 0)
        second_wins = (rise > 0) | ((rise == 0) & (lines.candidate_L[1:] < lines.candidate_L[:-1]))
        dropped = np.zeros(len(lines.sentence_L), bool)
        dropped[:-1] |= parallel & second_wins
        dropped[1:] |= parallel & ~second_wins
        apart = together & (run > 0)
        dropped[1:-1] |= apart[:-1] & apart[1:] & (rise[:-1] * run[1:] <= rise[1:] * run[:-1])
        if not dropped.any():
            return lines
        lines = Lines._make(column_L[~dropped] for column_L in lines)


@dataclass(frozen=True)
class _Block:
    """Sentences with lists of similar length as a matrix; shorter lists are padded with their first candidate."""

    sentences_S: Indices
    candidates_SK: Indices
    """Indices of the candidates, [S, K]."""
    features_FSK: Floats

    @cached_property
    def orders_FSK(self) -> Indices:
        """Indices into the flattened matrix, sorted by slope along each axis within a sentence."""
        return np.stack([_order(slopes_SK) for slopes_SK in self.features_FSK])

    def along(self, direction_F: Floats) -> tuple[Floats, Indices]:
        """Return the slopes along a direction, [S, K], and their order, [S, K] (see `_order`)."""
        axes = np.flatnonzero(direction_F)
        if len(axes) == 1 and direction_F[axes[0]] == 1:
            return self.features_FSK[axes[0]], self.orders_FSK[axes[0]]
        slopes_SK = _weighted_sum(direction_F, self.features_FSK)
        return slopes_SK, _order(slopes_SK)


def _blocks(candidates: Candidates) -> Iterator[_Block]:
    """Yield blocks of the sentences with candidates, by ascending length of their lists."""
    lengths = np.diff(candidates.offsets)
    waiting = lengths.argsort(kind="stable")[np.count_nonzero(lengths == 0) :]
    while len(waiting):
        # The last list of a block is the longest and determines its size.
        sizes = lengths[waiting] * np.arange(1, len(waiting) + 1)
        count = max(1, int(np.searchsorted(sizes, BLOCK_CANDIDATES, side="right")))
        sentences_S, waiting = waiting[:count], waiting[count:]
        number_K = np.arange(lengths[sentences_S[-1]])
        numbers_SK = np.where(number_K < lengths[sentences_S, np.newaxis], number_K, 0)
        candidates_SK = candidates.offsets[sentences_S, np.newaxis] + numbers_SK
        features_FSK = np.ascontiguousarray(candidates.features_CF[candidates_SK].transpose(2, 0, 1))
        yield _Block(sentences_S, candidates_SK, features_FSK)


def _order(slopes_SK: Floats) -> Indices:
    """Return indices into the flattened matrix that sort each row by slope."""
    rows, columns = slopes_SK.shape
    order_SK: Indices = slopes_SK.argsort(axis=1) + np.arange(rows)[:, np.newaxis] * columns
    return order_SK


def _weighted_sum(weights_F: Floats, features_FSK: Floats) -> Floats:
    """Return w . h, summed in a fixed order: equal candidates get equal sums, which BLAS does not guarantee."""
    total_SK = np.zeros(features_FSK.shape[1:])
    for weight, feature_SK in zip(weights_F, features_FSK, strict=True):
        total_SK += weight * feature_SK
    return total_SK


def _envelopes(lists: Lists, scores: Sequence[Floats], direction_F: Floats) -> Lines:
    """Return the lines of all upper envelopes."""
    parts = []
    for block, scores_SK in zip(lists.blocks, scores, strict=True):
        slopes_SK, order_SK = block.along(direction_F)
        # A line is never the best for x > 0 if a steeper line is higher, nor for x < 0 if a less steep line is higher.
        # Only a few of hundreds of lines remain. Non-negative doubles have the same order as their bits, and NumPy's
        # running minimum is five times as fast for integers.
        behind_SK = (scores_SK.max(axis=1, keepdims=True) - scores_SK).view(np.int64).take(order_SK)
        least_before_SK = np.fmin.accumulate(behind_SK, axis=1)
        least_after_SK = np.fmin.accumulate(behind_SK[:, ::-1], axis=1)[:, ::-1]
        found = np.flatnonzero(behind_SK <= np.maximum(least_before_SK, least_after_SK))
        places = order_SK.ravel()[found]
        parts.append(
            Lines(
                block.sentences_S[found // order_SK.shape[1]],
                block.candidates_SK.ravel()[places],
                slopes_SK.ravel()[places],
                scores_SK.ravel()[places],
            )
        )
    return upper_envelopes(Lines._make(map(np.concatenate, zip(*parts, strict=True))))


@dataclass(frozen=True)
class _Point:
    """A point of weight space."""

    weights_F: Floats
    scores: list[Floats]
    value: float


def _point(lists: Lists, weights_F: Floats, objective: Objective) -> _Point:
    scores = lists.scores(weights_F)
    return _Point(weights_F, scores, float(objective(lists.totals(scores))))


def _best_move(lists: Lists, origin: _Point, lines_DF: Floats, objective: Objective) -> _Point:
    """Return the best point on the lines through `origin`, or `origin` if no point is better."""
    found = [(*line_search(lists, origin.scores, line_F, objective), line_F) for line_F in lines_DF]
    _, step, line_F = max(found, key=itemgetter(0), default=(0.0, 0.0, np.zeros_like(origin.weights_F)))
    return max(origin, _point(lists, origin.weights_F + step * line_F, objective), key=attrgetter("value"))


def _best_climb(
    candidates: Candidates, objective: Objective, directions: int, starts: Sequence[_Start]
) -> tuple[float, int, Floats]:
    """Return the value, minus the number of the start, and the weights of the first of the best searches."""
    lists = Lists(candidates)
    return max((_climb(lists, start, objective, directions) for start in starts), key=itemgetter(0, 1))


def _climb(lists: Lists, start: _Start, objective: Objective, directions: int) -> tuple[float, int, Floats]:
    """Repeat moves from a start until the gain is too small.

    Dividing weights by the sum of their magnitudes can break a tie of two candidates, so points are compared after it.
    """
    number, start_F, seed = start
    generator = np.random.default_rng(seed)
    axes_DF = np.eye(len(start_F))
    point, ends = _point(lists, start_F, objective), list[_Point]()
    while True:
        before = point.value
        point = _best_move(lists, point, axes_DF, objective)
        if point.value - before <= SMALLEST_GAIN:
            ends.append(point)
            drawn_DF = generator.normal(size=(directions, len(start_F)))
            point = _best_move(lists, point, drawn_DF, objective)
        if point.value - before <= SMALLEST_GAIN:
            scaled = [_point(lists, _scaled(end.weights_F), objective) for end in (*ends, point)]
            best = max(scaled, key=attrgetter("value"))
            return best.value, -number, best.weights_F


def _scaled(weights_F: Floats) -> Floats:
    """Return the weights divided by the sum of their magnitudes."""
    norm = np.abs(weights_F).sum()
    return weights_F / norm if norm else weights_F
