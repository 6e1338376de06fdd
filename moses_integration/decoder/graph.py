"""The search graph of a sentence and its n-best derivations.

Shapes: N hypotheses, H winners of recombination, X language models and their components, F components of all features,
L steps of several derivations in sequence.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import islice
from typing import NamedTuple

import numpy as np

from moses_integration.decoder.model import LogLinearModel
from moses_integration.decoder.phrases import Floats, Indices, TargetPhrase, Words
from moses_integration.decoder.reordering import Jumps
from moses_integration.decoder.translation_options import NO_OPTION, Options

_NBEST_FACTOR = 20
"""Derivations considered per entry of a distinct n-best list: Moses' default n-best-factor."""


class Hypotheses(NamedTuple):
    """Hypotheses: each one extends another hypothesis by an option."""

    option_N: Indices
    back_N: Indices
    score_N: Floats
    """Score of the derivation so far, without future score."""
    lm_NX: Floats
    """Values that the option added to the language models."""
    states_NX: Indices
    """States of the language models after the hypothesis."""

    def take(self, indices: Indices) -> Hypotheses:
        return Hypotheses._make([column.take(indices, axis=0) for column in self])


def _joined(parts: Iterable[Hypotheses]) -> Hypotheses:
    return Hypotheses._make(map(np.concatenate, zip(*parts, strict=True)))


@dataclass(frozen=True)
class Step:
    """One phrase pair of a derivation; the source range is inclusive."""

    start: int
    end: int
    option: int
    """Index among the options of the sentence."""
    target: TargetPhrase


@dataclass(frozen=True)
class Derivation:
    """A sequence of phrase pairs that translates a sentence."""

    steps: tuple[Step, ...]
    score: float
    values_F: Floats

    @property
    def words(self) -> Words:
        return tuple(word for step in self.steps for word in step.target.words)


class SearchGraph:
    """The hypotheses of a search; 0 is the empty hypothesis."""

    root = 0

    def __init__(self, model: LogLinearModel, options: Options, begin: Sequence[int]) -> None:
        self._model, self.options = model, options
        none, states = np.array([NO_OPTION]), np.array([begin], np.int64).reshape(1, -1)
        self.empty = Hypotheses(none, none, np.zeros(1), np.zeros((1, len(model.lm_weights))), states)
        self._kept = [self.empty]
        self.states_NX = states
        """States of the language models after the hypotheses of all stacks."""
        self._last: Indices = np.array([self.root])
        self._lost: list[Hypotheses] = []
        """Hypotheses that lost in recombination; in `_all` they follow those of the stacks."""
        self._winners = [np.zeros(0, np.int64)]
        """For each of them, the hypothesis to which it lost."""

    def add(self, hypotheses: Hypotheses) -> Indices:
        """Add the hypotheses of a stack, best first; return their indices."""
        first = len(self.states_NX)
        self._kept.append(hypotheses)
        self.states_NX = np.concatenate((self.states_NX, hypotheses.states_NX))
        self._last = np.arange(first, len(self.states_NX))
        return self._last

    def add_arcs(self, candidates: Hypotheses, kept_H: Indices, winners_H: Indices, winner_N: Indices) -> None:
        """Add the candidates of a stack that lost to its hypotheses, which `add` returned and `winners_H` were before.

        `winner_N` is the position of each candidate's winner in `winners_H`, or beyond it if the winner was pruned.
        """
        is_loser_N = winner_N < len(kept_H)
        is_loser_N[winners_H] = False
        losers = np.flatnonzero(is_loser_N)
        losers = losers[np.argsort(-candidates.score_N[losers], kind="stable")]
        self._lost.append(candidates.take(losers))
        self._winners.append(kept_H[winner_N[losers]])

    @cached_property
    def _all(self) -> Hypotheses:
        return _joined((*self._kept, *self._lost))

    # Derivations

    def best(self) -> Derivation | None:
        if not len(self._last):
            return None
        hypothesis, way = int(self._last[self._all.score_N[self._last].argmax()]), list[int]()
        score = float(self._all.score_N[hypothesis])
        while hypothesis != self.root:
            way.append(hypothesis)
            hypothesis = int(self._all.back_N[hypothesis])
        return self._derivations([(score, way)])[0]

    def n_best(self, size: int, distinct: bool) -> list[Derivation]:
        """Return the best derivations, best first; with `distinct`, only the best one of each translation.

        As in Moses, at most 20 times `size` derivations are considered, so the list may be shorter (moses/Manager.cpp).
        """
        found: list[tuple[float, list[int]]] = []
        seen: set[bytes] = set()
        if distinct:
            text_O = [b"".join(word + b" " for word in target.words) for target in self.options.targets]
            option = self._all.option_N.tolist()
        for score, way in islice(self._ways(), _NBEST_FACTOR * size):
            if distinct:
                translation = b"".join([text_O[option[hypothesis]] for hypothesis in reversed(way)])
                if translation in seen:
                    continue
                seen.add(translation)
            found.append((score, way))
            if len(found) == size:
                break
        return self._derivations(found)

    def _ways(self) -> Iterator[tuple[float, list[int]]]:
        """Yield score and hypotheses (last to first) of every derivation, best first.

        A derivation is the best one with some hypotheses replaced by others that lost to them in recombination
        (moses/TrellisPath.cpp). Each derivation has one parent. It replaces a hypothesis further back than all
        replacements of the parent, or takes the next best replacement at the position of the parent's last one.
        """
        score, back = self._all.score_N.tolist(), self._all.back_N.tolist()
        losers, first, loss = self._losers()
        # Derivations that were yielded, each with a heap of its possible replacements (negative score, position). Only
        # the best replacement of each is in the main heap, because few are ever needed.
        origins: list[tuple[float, list[int], list[tuple[float, int]]]]
        origins = [(score[last], [last], []) for last in self._last.tolist()]
        # An entry of the heap is: negative score, two keys that break ties by origin and position, origin, position,
        # and rank of the replacement there: 0 for the winner, 1 for the best loser, and so on.
        heap = [(-total, -1, number, number, 0, 0) for number, (total, _, _) in enumerate(origins)]
        while heap:
            negative, _, _, number, position, rank = heapq.heappop(heap)
            total, origin, pending = origins[number]
            if rank == 1 and pending:
                replaced, later = heapq.heappop(pending)
                heapq.heappush(heap, (replaced, number, 1 + later, number, later, 1))
            winner, way = origin[position], origin[:position]
            hypothesis = losers[first[winner] + rank - 1] if rank else winner
            while hypothesis != self.root:
                way.append(hypothesis)
                hypothesis = back[hypothesis]
            yield -negative, way
            made, following = len(origins), first[winner] + rank
            if following < first[winner + 1]:
                replaced = score[winner] - score[losers[following]] - total
                heapq.heappush(heap, (replaced, made, 0, number, position, rank + 1))
            pending = [
                (negative + loss[hypothesis], later)
                for later, hypothesis in enumerate(way[position + 1 :], position + 1)
                if loss[hypothesis] < math.inf
            ]
            origins.append((-negative, way, pending))
            if pending:
                heapq.heapify(pending)
                replaced, later = heapq.heappop(pending)
                heapq.heappush(heap, (replaced, made, 1 + later, made, later, 1))

    def _losers(self) -> tuple[list[int], list[int], list[float]]:
        """Return the losers as a list sorted by winner, and where those of each winner start.

        The third result is by how much each hypothesis beats its best loser, infinity without one.
        """
        winners, score_N = np.concatenate(self._winners), self._all.score_N
        order = np.argsort(winners, kind="stable")
        losers = len(self.states_NX) + order
        first_N = np.searchsorted(winners[order], np.arange(len(score_N) + 1))
        loss_N = np.full(len(score_N), np.inf)
        has_lost = np.flatnonzero(np.diff(first_N))
        loss_N[has_lost] = score_N[has_lost] - score_N[losers[first_N[has_lost]]]
        return losers.tolist(), first_N.tolist(), loss_N.tolist()

    def _derivations(self, found: Sequence[tuple[float, list[int]]]) -> list[Derivation]:
        hypothesis_L = np.array([hypothesis for _, way in found for hypothesis in reversed(way)], np.int64)
        derivation_L = np.repeat(np.arange(len(found)), [len(way) for _, way in found])
        option_L = self._all.option_N[hypothesis_L]
        before_L = [before for _, way in found for before in (self.root, *reversed(way))[: len(way)]]
        previous_L = self._all.option_N[np.array(before_L, np.int64)]
        values_LF = step_values(self._model, self.options, previous_L, option_L)
        values_LF[:, self._model.lm_columns] += self._all.lm_NX[hypothesis_L]
        sums = np.zeros((len(found), self._model.width))
        np.add.at(sums, derivation_L, values_LF)
        start_L, end_L = self.options.start_O[option_L], self.options.end_O[option_L]
        options = option_L.tolist()
        targets = [self.options.targets[option] for option in options]
        steps = iter(map(Step, start_L.tolist(), end_L.tolist(), options, targets))
        return [
            Derivation(tuple(islice(steps, len(way))), score, values_F)
            for (score, way), values_F in zip(found, sums, strict=True)
        ]


def step_values(model: LogLinearModel, options: Options, previous_L: Indices, option_L: Indices) -> Floats:
    """Return the values [L, F] of steps from one option to the next, without what language models add."""
    values_LF = options.values_OF[option_L]
    start_O, end_O = options.start_O, options.end_O
    jumps = Jumps(start_O[previous_L], end_O[previous_L], start_O[option_L], end_O[option_L])
    for feature in model.jump_features:
        row_OK = options.rows[feature.label]
        values_LF[:, model.columns[feature.label]] = feature.values(jumps, row_OK[previous_L], row_OK[option_L])
    return values_LF
