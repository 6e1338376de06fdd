"""Stack decoding with cube pruning, vectorised by stack.

Stack k holds hypotheses that cover k source words. Its candidates are all *moves* (a hypothesis of an earlier stack and
a span that it may cover next) with each option of the span, as arrays. A candidate is first ranked by its score with
an estimate in place of the language models. The best `pop_limit` candidates are scored exactly, in one batch, then
recombined and pruned to the stack size. This is cube pruning (Chiang 2007, Huang & Chiang 2007;
moses/SearchCubePruning.cpp) with pops in the order of the estimate instead of neighbourhoods. Without a pop limit all
candidates are scored, as in Moses' normal search, except that the beam also prunes stacks that are not full.

Under a distortion limit the hypotheses of a stack differ only in a *window* of words: all words before it are covered,
none after it. Only the window and its spans are considered, so decoding time is linear in sentence length.

Shapes: H hypotheses of a stack, S spans of the sentence, s spans of a window, w words of a window, M moves, N
candidates (move, option), D distinct states of candidates, C coverages of a stack, R relations, O options of the
sentence, J leading options of a span, X language models.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from moses_integration.decoder.graph import Hypotheses, SearchGraph
from moses_integration.decoder.model import LogLinearModel
from moses_integration.decoder.phrases import Floats, Indices, Words
from moses_integration.decoder.reordering import RELATIONS, Jumps
from moses_integration.decoder.settings import DecoderSettings
from moses_integration.decoder.translation_options import FutureScores, Options, collect_options
from phrasescore.phrases import ranges

Coverages = NDArray[Any]
"""Sets of covered words: bit i is word i of a window. Bits of wide windows are Python's integers."""
_MOST_BITS = 62
_LEADING = 4
"""Options of a span by which moves without popped candidates are recognised."""


class Entries(NamedTuple):
    """What the spans and the options add to a hypothesis, by their relation to its last phrase, as flat arrays."""

    score_RO: Floats
    rank_RO: Floats
    """The score with the estimates of the language models."""
    first_RS: Indices
    """The first option of each span; the others follow it."""
    count_RS: Indices
    best_RS: Floats
    leading_RSJ: Floats
    """Ranks of the first options of each span, minus infinity if it has fewer."""

    @classmethod
    def of(cls, options: Options) -> Entries:
        rank_RO = (options.future_O[:, None] + options.entering_OR).T.ravel()
        first_S, end_S = options.span_first_S[:-1], options.span_first_S[1:]
        first_RS = (np.arange(len(RELATIONS))[:, None] * len(options.score_O) + first_S).ravel()
        count_RS = np.concatenate([end_S - first_S] * len(RELATIONS))
        leading_RSJ = rank_RO.take(first_RS[:, None] + np.arange(_LEADING), mode="clip")
        leading_RSJ[np.arange(_LEADING) >= count_RS[:, None]] = -np.inf
        return cls(options.entering_OR.T.ravel(), rank_RO, first_RS, count_RS, options.best_SR.T.ravel(), leading_RSJ)


class Window(NamedTuple):
    """A window of words and the spans in it, ordered by length."""

    first_word: int
    coverage_w: Coverages
    span_s: Indices
    start_s: Indices
    end_s: Indices
    coverage_s: Coverages
    first_of_length: Indices
    """Index of the first span of each length, from 1."""


class Moves(NamedTuple):
    """Moves of hypotheses of one stack."""

    record_M: Indices
    entry_M: Indices
    """Relation and span, as an index of the arrays of `Entries`."""
    score_M: Floats
    """Score of the hypothesis plus that of the jump."""
    future_M: Floats
    coverage_M: Coverages
    """Coverage after the move, in the window of the hypothesis."""

    def take(self, indices: Indices) -> Moves:
        return Moves._make([column.take(indices) for column in self])


@dataclass(frozen=True)
class Stack:
    """Hypotheses that cover the same number of words, best first."""

    kept: Hypotheses
    record_H: Indices
    coverage_H: Indices
    coverage_C: Coverages
    future_C: Floats
    window: Window


class Search:
    """The search for one sentence."""

    def __init__(
        self, model: LogLinearModel, settings: DecoderSettings, sentence: Words, options: Options | None = None
    ) -> None:
        self._model, self._settings, self._words = model, settings, len(sentence)
        self._options = options = options or collect_options(model, sentence, settings.longest_phrase)
        self._longest = int((options.span_end_S - options.span_start_S + 1).max(initial=1))
        # In stack k, the first gap is at most this far before word k, and a covered word this far after the first gap.
        self._reach = min(settings.distortion_limit, self._words) if settings.distortion_limit >= 0 else self._words
        self._width = min(self._words, self._reach + max(self._reach, self._longest))
        self._bits: np.dtype[Any] = np.dtype(np.int64 if self._width <= _MOST_BITS else np.object_)
        self._entries = Entries.of(options)
        self._future = FutureScores(options, self._reach)
        self._by_start = np.argsort(options.span_start_S, kind="stable")
        self._distance_weight = sum(
            feature.distance_weight(model.weights_F[model.columns[feature.label]]) for feature in model.jump_features
        )
        self._lm_weights = model.lm_weights
        begin = [feature.begin(options) for feature in model.language_models]
        self._graph = SearchGraph(model, options, begin)

    def run(self, keep_arcs: bool = False) -> SearchGraph:
        """Decode; `keep_arcs` also keeps recombined hypotheses, which n-best lists need."""
        stack = self._empty_stack()
        # The most recent stacks with the moves out of them, latest first.
        recent = deque[tuple[Stack, list[Moves]]](maxlen=self._longest)
        for k in range(1, self._words + 1):
            recent.appendleft((stack, self._moves(stack)))
            stack = self._fill(k, recent, keep_arcs)
        return self._graph

    def _empty_stack(self) -> Stack:
        return Stack(
            kept=self._graph.empty,
            record_H=np.array([self._graph.root]),
            coverage_H=np.zeros(1, np.int64),
            coverage_C=np.zeros(1, self._bits),
            future_C=self._future(np.zeros(1, np.int64), np.array([self._words])),
            window=self._window(0),
        )

    def _window(self, first_word: int) -> Window:
        options, end = self._options, first_word + self._width
        first, last = np.searchsorted(options.span_start_S, (first_word, end), sorter=self._by_start)
        span_s = np.sort(self._by_start[first:last])
        span_s = span_s[options.span_end_S[span_s] < end]
        start_s, end_s = options.span_start_S[span_s], options.span_end_S[span_s]
        coverage_w = 1 << np.arange(self._width).astype(self._bits)
        coverage_s = ((2 << (end_s - start_s).astype(self._bits)) - 1) * coverage_w[start_s - first_word]
        first_of_length = np.searchsorted(end_s - start_s, np.arange(self._longest + 1))
        return Window(first_word, coverage_w, span_s, start_s, end_s, coverage_s, first_of_length)

    # Moves out of a stack

    def _moves(self, stack: Stack) -> list[Moves]:
        options, window, option_H = self._options, stack.window, stack.kept.option_N
        covered_Cw = (stack.coverage_C[:, None] & window.coverage_w) != 0
        allowed_sH = self._allowed_spans(stack, covered_Cw).T.take(stack.coverage_H, axis=1)
        previous_start_H, previous_end_H = options.start_O.take(option_H), options.end_O.take(option_H)
        if self._settings.distortion_limit >= 0:
            allowed_sH &= np.abs(window.start_s[:, None] - (previous_end_H + 1)) <= self._settings.distortion_limit
        # Sorted by span, and so by length.
        near_M, h_M = np.divmod(allowed_sH.ravel().nonzero()[0], len(option_H))
        start_M, end_M = window.start_s.take(near_M), window.end_s.take(near_M)
        jumps = Jumps(previous_start_H.take(h_M), previous_end_H.take(h_M), start_M, end_M)
        relation_M = jumps.relations()
        leaving_M = options.leaving_OR.ravel().take((option_H * len(RELATIONS)).take(h_M) + relation_M)
        score_M = stack.kept.score_N.take(h_M) + self._distance_weight * jumps.distances() + leaving_M
        # Index of coverage and span.
        cell_M = stack.coverage_H.take(h_M) * len(window.span_s) + near_M
        moves = Moves(
            record_M=stack.record_H.take(h_M),
            entry_M=relation_M * len(options.span_start_S) + window.span_s.take(near_M),
            score_M=score_M,
            future_M=self._future_after(stack, covered_Cw).take(cell_M),
            coverage_M=(stack.coverage_C[:, None] | window.coverage_s).take(cell_M),
        )
        first_of_length = near_M.searchsorted(window.first_of_length).tolist()
        return [Moves._make([column[a:b] for column in moves]) for a, b in pairwise(first_of_length)]

    def _allowed_spans(self, stack: Stack, covered_Cw: NDArray[np.bool_]) -> NDArray[np.bool_]:
        """Return which spans [C, s] are uncovered and leave the first gap within the distortion limit."""
        window, limit = stack.window, self._settings.distortion_limit
        allowed_Cs: NDArray[np.bool_] = (stack.coverage_C[:, None] & window.coverage_s) == 0
        if limit >= 0:
            # No uncovered span starts before the first gap.
            gap_C1 = window.first_word + covered_Cw.argmin(axis=1)[:, None]
            allowed_Cs &= (window.start_s == gap_C1) | (window.end_s < gap_C1 + limit)
        return allowed_Cs

    def _future_after(self, stack: Stack, covered_Cw: NDArray[np.bool_]) -> Floats:
        """Return the future score [C, s] after an uncovered span is added, which splits the gap around it."""
        first = stack.window.first_word
        word_w, next_w = np.arange(first, first + self._width), np.arange(first + 1, first + self._width + 1)
        gap_start_Cw = np.maximum.accumulate(np.where(covered_Cw, next_w, first), axis=1)
        gap_end_Cw = np.where(covered_Cw, word_w, self._words)[:, ::-1]
        gap_end_Cw = np.minimum.accumulate(gap_end_Cw, axis=1)[:, ::-1]
        before_Cw = (
            stack.future_C[:, None] - self._future(gap_start_Cw, gap_end_Cw) + self._future(gap_start_Cw, word_w)
        )
        after_Cw = self._future(next_w, gap_end_Cw)
        start_s, end_s = stack.window.start_s - first, stack.window.end_s - first
        future_Cs: Floats = before_Cw.take(start_s, axis=1) + after_Cw.take(end_s, axis=1)
        return future_Cs

    # Moves into a stack

    def _fill(self, k: int, recent: Sequence[tuple[Stack, list[Moves]]], keep_arcs: bool) -> Stack:
        first_word, window = max(0, min(k - self._reach, self._words - self._width)), recent[0][0].window
        if first_word != window.first_word:
            window = self._window(first_word)
        moves = self._promising(_moves_into(recent, first_word))
        move_N, entry_N = self._popped(moves)
        option_N = entry_N % len(self._options.score_O)
        record_N, future_N = moves.record_M.take(move_N), moves.future_M.take(move_N)
        lm_NX, states_NX = self._extend(record_N, option_N, is_end=k == self._words)
        score_N = moves.score_M.take(move_N) + self._options.score_O.take(option_N)
        score_N += self._entries.score_RO.take(entry_N)
        score_N += lm_NX @ self._lm_weights
        total_N = score_N + future_N
        coverage_N = moves.coverage_M.take(move_N)
        best_first = (-total_N).argsort(kind="stable")
        state_N = _row_numbers([coverage_N, self._options.exit_O.take(option_N), *states_NX.T])
        # Recombination: the first candidate of each state wins.
        first_D = _first_of_each(state_N.take(best_first))
        first_ones = np.sort(first_D)
        winners = best_first.take(first_ones)
        winners = winners[: self._number_kept(total_N.take(winners))]

        covered_H = coverage_N.take(winners)
        first_C = _first_of_each(covered_H)
        coverage_C = covered_H.take(first_C)
        candidates = Hypotheses(option_N, record_N, score_N, lm_NX, states_NX)
        kept = candidates.take(winners)
        record_H = self._graph.add(kept)
        if keep_arcs:
            state_D = state_N.take(best_first.take(first_D))
            winner_N = first_ones.searchsorted(first_D).take(state_D.searchsorted(state_N))
            self._graph.add_arcs(candidates, record_H, winners, winner_N)
        return Stack(
            kept, record_H, coverage_C.searchsorted(covered_H), coverage_C, future_N.take(winners.take(first_C)), window
        )

    def _promising(self, moves: Moves) -> Moves:
        """Drop moves of which all candidates rank below the leading candidates of others, before they are made."""
        rank_M = moves.score_M + moves.future_M
        leading_MJ = rank_M[:, None] + self._entries.leading_RSJ.take(moves.entry_M, axis=0)
        least = _least_of_best(leading_MJ.ravel(), self._settings.pop_limit)
        return moves.take((rank_M + self._entries.best_RS.take(moves.entry_M) >= least).nonzero()[0])

    def _popped(self, moves: Moves) -> tuple[Indices, Indices]:
        """Return the moves of the candidates that rank best, with all that equal the last one of them, and entries."""
        count_M = self._entries.count_RS.take(moves.entry_M)
        entry_N = ranges(self._entries.first_RS.take(moves.entry_M), count_M)
        rank_N = np.repeat(moves.score_M + moves.future_M, count_M) + self._entries.rank_RO.take(entry_N)
        (popped,) = (rank_N >= _least_of_best(rank_N, self._settings.pop_limit)).nonzero()
        return np.repeat(np.arange(len(count_M)), count_M).take(popped), entry_N.take(popped)

    def _number_kept(self, total_H: Floats) -> int:
        size, beam = self._settings.stack or len(total_H), self._settings.beam_threshold
        if not (beam > 0 and len(total_H)):
            return size
        # Compare differences, because adding the beam to a total of 1e17 would be lost to rounding.
        return min(size, int(np.count_nonzero(total_H - total_H[0] > math.log(beam))))

    def _extend(self, record_N: Indices, option_N: Indices, is_end: bool) -> tuple[Floats, Indices]:
        """Return the values of language models for options after hypotheses, and the new states."""
        lm_NX, end = np.empty((len(record_N), len(self._lm_weights))), 0
        states_NX = self._graph.states_NX.take(record_N, axis=0)
        for i, feature in enumerate(self._model.language_models):
            start, end = end, end + feature.width
            lm_NX[:, start:end], states_NX[:, i] = feature.extend(states_NX[:, i], option_N, is_end)
        return lm_NX, states_NX


def _moves_into(recent: Iterable[tuple[Stack, list[Moves]]], first_word: int) -> Moves:
    """Return the moves from recent stacks into the next one, with the coverages in its window."""
    parts = []
    for length, (stack, by_length) in enumerate(recent):
        part = by_length[length]
        if shift := first_word - stack.window.first_word:
            part = part._replace(coverage_M=part.coverage_M >> shift)
        parts.append(part)
    return Moves._make(map(np.concatenate, zip(*parts, strict=True)))


def _least_of_best(values_N: Floats, limit: int) -> float:
    """Return the smallest of the `limit` largest values, minus infinity if there are fewer; 0 is no limit."""
    return float(np.partition(values_N, -limit)[-limit]) if 0 < limit < len(values_N) else -math.inf


def _row_numbers(columns: Sequence[Indices]) -> Indices:
    """Number the rows of some columns of small integers, so that equal rows have equal numbers."""
    number_N, size = columns[0], int(columns[0].max(initial=0)) + 1
    for column in columns[1:]:
        width = int(column.max(initial=0)) + 1
        if size * width >= 1 << 62:
            _, number_N = np.unique(number_N, return_inverse=True)
            size = len(number_N)
        number_N, size = number_N * width + column, size * width
    return number_N


def _first_of_each(values_N: NDArray[Any]) -> Indices:
    """Return the index of the first element of each distinct value, in ascending order of values."""
    order = values_N.argsort(kind="stable")
    sorted_N, is_first_N = values_N.take(order), np.ones(len(values_N), np.bool_)
    is_first_N[1:] = sorted_N[1:] != sorted_N[:-1]
    return order[is_first_N]
