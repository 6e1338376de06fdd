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

Array names: S sentences, C all candidates, P candidates of a part of the sentences, F features, 9 statistics, L lines,
B corners (breakpoints) of all sentences, I = B + 1 intervals, D directions, N starts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
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
PART_CANDIDATES = 32_000
"""Candidates of a part of the lists, whose arrays should fit in the cache."""

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
    with start_workers("searching for weights", processes) as workers:
        for objective in (bleu, smoothed_bleu):
            climb = partial(_best_climb, candidates, objective, directions)
            found = map_ordered(climb, [starts[first::processes] for first in range(processes)], workers)
            value, _, weights_F = max(found, key=itemgetter(0, 1))
            if value > 0:
                break
    return Optimum(weights_F, evaluate(candidates, weights_F))


def evaluate(candidates: Candidates, weights_F: Floats) -> float:
    """Return the BLEU, from 0 to 1, of the 1-best candidates under these weights; the first of equals wins."""
    return Point.at(weights_F, Lists(candidates), bleu).value


class Lines(NamedTuple):
    """Scores of candidates along a direction; each sentence has one group of lines for x > 0 and one for x < 0.

    The first line of a group is the highest at x = 0; each following line is lower there, and steeper.
    """

    starts_L: NDArray[np.bool_]
    """Whether a group starts here."""
    candidate_L: Indices
    slope_L: Floats
    height_L: Floats
    """Score at x = 0."""


class Ranked(NamedTuple):
    """The candidates of a part at a point of weight space, by sentence and descending score."""

    order_P: Indices
    score_P: Floats


class Part:
    """The candidates of consecutive sentences, few enough that their arrays fit in the cache."""

    def __init__(self, candidates: Candidates, offsets: Indices) -> None:
        self.candidates = slice(int(offsets[0]), int(offsets[-1]))
        self._features_FP = np.ascontiguousarray(candidates.features_CF[self.candidates].T)
        self._largest_F = np.abs(self._features_FP).max(axis=1)
        self._first_S, self._length_S = offsets[:-1] - offsets[0], np.diff(offsets)
        self._sentences = [slice(*ends) for ends in pairwise((offsets - offsets[0]).tolist())]
        self._first_P = self._first_S.repeat(self._length_S)
        self._number_P = np.arange(len(self._first_P)) - self._first_P
        # The integers that represent the slopes of a sentence are around this one and above those of earlier sentences.
        self._range = 2**62 // len(self._length_S)
        self._middle_P = (np.arange(len(self._length_S)) * self._range + self._range // 2).repeat(self._length_S)

    def ranked(self, weights_F: Floats) -> Ranked:
        """Rank the candidates of each sentence by w . h; the first of equals comes first."""
        score_P = _weighted_sums(weights_F, self._features_FP)
        behind_P = np.maximum.reduceat(score_P, self._first_S).repeat(self._length_S) - score_P
        # Integers are sorted several times as fast as indices. Non-negative doubles have the same order as their bits;
        # the lowest bits of the mantissa make room for the number of the candidate.
        low_bits = (1 << int(self._number_P.max()).bit_length()) - 1
        key_P = (behind_P.view(np.int64) & ~low_bits) | self._number_P
        for sentence in self._sentences:
            key_P[sentence].sort()
        order_P = (key_P & low_bits) + self._first_P
        return Ranked(order_P, score_P.take(order_P))

    def best(self, ranked: Ranked) -> Indices:
        """Return the index of the 1-best candidate of each sentence, [S]."""
        best_S: Indices = self.candidates.start + ranked.order_P[self._first_S]
        return best_S

    def lines(self, ranked: Ranked, direction_F: Floats) -> Lines:
        """Return the lines along a direction that may be in an upper envelope: a few of hundreds.

        For x > 0, a line is never the best if a higher line is at least as steep.
        """
        slope_P = self._slopes(direction_F).take(ranked.order_P)
        # A running maximum of integers is five times as fast as one of doubles; see also `_middle_P`.
        scale = self._range / 4 / (np.abs(direction_F) @ self._largest_F or 1)
        offset_P = (slope_P * scale).astype(np.int64)
        places = []
        for key_P in (self._middle_P + offset_P, self._middle_P - offset_P):
            steepest_P = np.maximum.accumulate(key_P)
            places += [np.zeros(1, np.int64), 1 + (steepest_P[1:] > steepest_P[:-1]).nonzero()[0]]
        place_L = np.concatenate(places)
        return Lines(
            self._number_P.take(place_L) == 0,
            self.candidates.start + ranked.order_P.take(place_L),
            slope_P.take(place_L),
            ranked.score_P.take(place_L),
        )

    def _slopes(self, direction_F: Floats) -> Floats:
        axes = direction_F.nonzero()[0]
        if len(axes) == 1 and direction_F[axes[0]] == 1:
            slope_P: Floats = self._features_FP[axes[0]]
            return slope_P
        return _weighted_sums(direction_F, self._features_FP)


class Lists:
    """The candidates as arrays for the search, without the sentences that have none."""

    def __init__(self, candidates: Candidates) -> None:
        self.statistics_C9 = candidates.statistics_C9
        offsets = np.unique(candidates.offsets)
        cuts = np.unique(offsets.searchsorted([*range(0, len(candidates), PART_CANDIDATES), len(candidates)]))
        self.parts = [Part(candidates, offsets[first : last + 1]) for first, last in pairwise(cuts)]

    def lines(self, ranked: Sequence[Ranked], directions_DF: Floats) -> Iterator[Lines]:
        """Yield the lines along each direction that may be in an upper envelope."""
        # All directions of a part are searched before the next part, because its arrays are in the cache then.
        lines = [
            [part.lines(part_ranked, direction_F) for direction_F in directions_DF]
            for part, part_ranked in zip(self.parts, ranked, strict=True)
        ]
        return (Lines._make(map(np.concatenate, zip(*parts, strict=True))) for parts in zip(*lines, strict=True))


@dataclass(frozen=True)
class Point:
    """A point of weight space."""

    weights_F: Floats
    ranked: list[Ranked]
    """The candidates of each part."""
    totals_9: Statistics
    """The statistics of the 1-best candidates, summed over the sentences."""
    value: float

    @classmethod
    def at(cls, weights_F: Floats, lists: Lists, objective: Objective) -> Point:
        ranked = [part.ranked(weights_F) for part in lists.parts]
        best_S = np.concatenate([part.best(part_ranked) for part, part_ranked in zip(lists.parts, ranked, strict=True)])
        totals_9 = lists.statistics_C9[best_S].sum(axis=0, dtype=np.int64)
        return cls(weights_F, ranked, totals_9, float(objective(totals_9)))


def line_search(lists: Lists, origin: Point, directions_DF: Floats, objective: Objective) -> list[tuple[float, float]]:
    """Return for each direction d the maximum of the objective on the line w + x d, where w is the origin, and x.

    x is the middle of the first interval that has the maximum. The search is fastest along axes.
    """
    return [_best_step(lists, origin, lines, objective) for lines in lists.lines(origin.ranked, directions_DF)]


def _best_step(lists: Lists, origin: Point, lines: Lines, objective: Objective) -> tuple[float, float]:
    lines = upper_envelopes(lines)
    outer_B = (~lines.starts_L).nonzero()[0]
    if not len(outer_B):
        return origin.value, 0.0
    inner_B = outer_B - 1
    run_B = lines.slope_L.take(outer_B) - lines.slope_L.take(inner_B)
    corner_B = (lines.height_L.take(inner_B) - lines.height_L.take(outer_B)) / run_B
    order_B = corner_B.argsort()
    corner_B = corner_B.take(order_B)
    # The changes of the statistics at each corner from left to right, after the statistics of the leftmost candidates.
    statistics_L9 = lists.statistics_C9.take(lines.candidate_L, axis=0)
    change_B9 = statistics_L9.take(outer_B, axis=0) - statistics_L9.take(inner_B, axis=0)
    change_B9 *= np.sign(run_B).astype(np.int32)[:, np.newaxis]
    leftmost_9 = origin.totals_9 - (run_B < 0) @ change_B9
    totals_9I = np.column_stack([leftmost_9, change_B9.take(order_B, axis=0).T]).cumsum(axis=1)
    ends = np.concatenate([corner_B[:1] - 2 * OUTER_STEP, corner_B, corner_B[-1:] + 2 * OUTER_STEP])
    wide = (np.diff(ends) > NARROWEST).nonzero()[0]
    value_I = objective(totals_9I.take(wide, axis=1).T)
    best = value_I.argmax()
    left = wide[best]
    return float(value_I[best]), float(ends[left : left + 2].mean())


def upper_envelopes(lines: Lines) -> Lines:
    """Return the lines of each group that are the best for some x.

    The upper envelope of lines is the upper hull of the points (slope, height). A point on or below the chord between
    its neighbours is not in the hull, even if a neighbour is not in the hull either. Each round drops all such points
    of all sentences at once; a few rounds suffice.
    """
    while True:
        run, rise = np.abs(np.diff(lines.slope_L)), np.diff(lines.height_L)
        kept_L = lines.starts_L.copy()
        kept_L[:-1] |= lines.starts_L[1:]
        kept_L[-1] = True
        kept_L[1:-1] |= rise[:-1] * run[1:] > rise[1:] * run[:-1]
        places = kept_L.nonzero()[0]
        if len(places) == len(kept_L):
            return lines
        lines = Lines._make(column_L.take(places) for column_L in lines)


def _weighted_sums(weights_F: Floats, features_FC: Floats) -> Floats:
    """Return w . h, summed in a fixed order: equal candidates get equal sums, which BLAS does not guarantee."""
    sums_C: Floats = np.einsum("f,fc->c", weights_F, features_FC)
    return sums_C


def _best_move(lists: Lists, origin: Point, directions_DF: Floats, objective: Objective) -> Point:
    """Return the best point on the lines through `origin`, or `origin` if no point is better."""
    found = zip(line_search(lists, origin, directions_DF, objective), directions_DF, strict=True)
    (_, step), direction_F = max(
        found, key=lambda pair: pair[0][0], default=((0.0, 0.0), np.zeros_like(origin.weights_F))
    )
    return max(origin, Point.at(origin.weights_F + step * direction_F, lists, objective), key=attrgetter("value"))


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
    point, ends = Point.at(start_F, lists, objective), list[Point]()
    while True:
        before = point.value
        point = _best_move(lists, point, axes_DF, objective)
        if point.value - before <= SMALLEST_GAIN:
            ends.append(point)
            drawn_DF = generator.normal(size=(directions, len(start_F)))
            point = _best_move(lists, point, drawn_DF, objective)
        if point.value - before <= SMALLEST_GAIN:
            scaled = [Point.at(_scaled(end.weights_F), lists, objective) for end in (*ends, point)]
            best = max(scaled, key=attrgetter("value"))
            return best.value, -number, best.weights_F


def _scaled(weights_F: Floats) -> Floats:
    """Return the weights divided by the sum of their magnitudes."""
    norm = np.abs(weights_F).sum()
    return weights_F / norm if norm else weights_F
