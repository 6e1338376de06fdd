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
candidates (move, option), U moves of candidates, C coverages of a stack, R relations, O options of the sentence, X
context features.
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
from moses_integration.decoder.reordering import Jumps
from moses_integration.decoder.settings import DecoderSettings
from moses_integration.decoder.translation_options import FutureScores, Options, collect_options
from phrasescore.phrases import ranges

Coverages = NDArray[Any]
"""Sets of covered words: bit i is word i of a window. Bits of wide windows are Python's integers."""
_MOST_BITS = 62


class Moves(NamedTuple):
    """Moves of hypotheses of one stack."""

    record_M: Indices
    span_M: Indices
    relation_M: Indices
    score_M: Floats
    """Score of the hypothesis plus that of the jump."""
    future_M: Floats
    coverage_M: Coverages
    """Coverage after the move, in the window of the hypothesis."""
    bound_M: Floats
    """Rank of the best candidate of the move."""

    def take(self, indices: Indices) -> Moves:
        return Moves._make([column.take(indices) for column in self])


@dataclass(frozen=True)
class Stack:
    """Hypotheses that cover the same number of words, best first."""

    record_H: Indices
    coverage_H: Indices
    coverage_C: Coverages
    future_C: Floats
    first_word: int
    """Start of the window."""


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
        self._value_RO = (options.future_O[:, None] + options.entering_OR).T.copy()
        """What each option adds to the rank of a move, by relation."""
        self._future = FutureScores(options, self._reach)
        self._by_start = np.argsort(options.span_start_S, kind="stable")
        self._distance_weight = sum(
            feature.distance_weight(model.weights_F[model.columns[feature.label]]) for feature in model.jump_features
        )
        begin = [feature.begin(options) for feature in model.context_features]
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
            record_H=np.array([self._graph.root]),
            coverage_H=np.zeros(1, np.int64),
            coverage_C=np.zeros(1, self._bits),
            future_C=self._future(np.zeros(1, np.int64), np.array([self._words])),
            first_word=0,
        )

    # Moves out of a stack

    def _moves(self, stack: Stack) -> list[Moves]:
        options, graph = self._options, self._graph.kept
        span_s = self._spans_in_window(stack.first_word)
        start_s, end_s = options.span_start_S[span_s], options.span_end_S[span_s]
        option_H = graph.option_N[stack.record_H]
        previous_start_H, previous_end_H = options.start_O[option_H], options.end_O[option_H]
        covered_Cw = (stack.coverage_C[:, None] >> np.arange(self._width, dtype=self._bits) & 1).astype(np.bool_)
        allowed_sH = self._allowed_spans(stack.first_word, covered_Cw, start_s, end_s).T[:, stack.coverage_H]
        if self._settings.distortion_limit >= 0:
            allowed_sH &= np.abs(start_s[:, None] - previous_end_H - 1) <= self._settings.distortion_limit
        # Sorted by span, and so by length.
        near_M, h_M = allowed_sH.nonzero()
        start_M, end_M, span_M = start_s.take(near_M), end_s.take(near_M), span_s.take(near_M)
        jumps = Jumps(previous_start_H.take(h_M), previous_end_H.take(h_M), start_M, end_M)
        relation_M, before_M, record_M = jumps.relations(), stack.coverage_H.take(h_M), stack.record_H.take(h_M)
        leaving_M = options.leaving_OR[option_H.take(h_M), relation_M]
        score_M = graph.score_N.take(record_M) + self._distance_weight * jumps.distances() + leaving_M
        future_M = self._future_after(stack, covered_Cw, before_M, start_M, end_M)
        moves = Moves(
            record_M=record_M,
            span_M=span_M,
            relation_M=relation_M,
            score_M=score_M,
            future_M=future_M,
            coverage_M=stack.coverage_C[before_M] | self._as_bits(start_s - stack.first_word, end_s - start_s)[near_M],
            bound_M=score_M + future_M + options.best_SR[span_M, relation_M],
        )
        first_of_length = np.searchsorted(end_M - start_M + 1, np.arange(1, self._longest + 2)).tolist()
        return [Moves._make([column[a:b] for column in moves]) for a, b in pairwise(first_of_length)]

    def _as_bits(self, first_s: Indices, others_s: Indices) -> Coverages:
        """Return the coverage of `others_s` + 1 words from word `first_s` of a window."""
        bits_s: Coverages = ((2 << others_s.astype(self._bits)) - 1) << first_s.astype(self._bits)
        return bits_s

    def _spans_in_window(self, first_word: int) -> Indices:
        options, end = self._options, first_word + self._width
        first, last = np.searchsorted(options.span_start_S, (first_word, end), sorter=self._by_start)
        span_s = np.sort(self._by_start[first:last])
        return span_s[options.span_end_S[span_s] < end]

    def _allowed_spans(
        self, first: int, covered_Cw: NDArray[np.bool_], start_s: Indices, end_s: Indices
    ) -> NDArray[np.bool_]:
        """Return which spans [C, s] are uncovered and leave the first gap within the distortion limit."""
        limit = self._settings.distortion_limit
        before_Cw = np.zeros((len(covered_Cw), self._width + 1), np.int64)
        np.cumsum(covered_Cw, axis=1, out=before_Cw[:, 1:])
        allowed_Cs: NDArray[np.bool_] = before_Cw[:, start_s - first] == before_Cw[:, end_s + 1 - first]
        if limit >= 0:
            gap_C1 = first + covered_Cw.argmin(axis=1)[:, None]
            allowed_Cs &= (start_s == gap_C1) | (np.abs(end_s + 1 - gap_C1) <= limit)
        return allowed_Cs

    def _future_after(
        self, stack: Stack, covered_Cw: NDArray[np.bool_], coverage_M: Indices, start_M: Indices, end_M: Indices
    ) -> Floats:
        """Return the future score after a span is added to a coverage, which splits the gap around it."""
        first = stack.first_word
        word_w = first + np.arange(self._width)
        gap_start_Cw = np.maximum.accumulate(np.where(covered_Cw, word_w + 1, first), axis=1)
        gap_end_Cw = np.where(covered_Cw, word_w, self._words)[:, ::-1]
        gap_end_Cw = np.minimum.accumulate(gap_end_Cw, axis=1)[:, ::-1]
        gap_start_M, gap_end_M = gap_start_Cw[coverage_M, start_M - first], gap_end_Cw[coverage_M, start_M - first]
        return (
            stack.future_C[coverage_M]
            - self._future(gap_start_M, gap_end_M)
            + self._future(gap_start_M, start_M)
            + self._future(end_M + 1, gap_end_M)
        )

    # Moves into a stack

    def _fill(self, k: int, recent: Iterable[tuple[Stack, list[Moves]]], keep_arcs: bool) -> Stack:
        options = self._options
        first_word = max(0, min(k - self._reach, self._words - self._width))
        moves = _moves_into(recent, first_word)
        # A move without a candidate among the best ones is dropped before its candidates are made.
        moves = moves.take(_best(moves.bound_M, self._settings.pop_limit))
        count_M = np.diff(options.span_first_S).take(moves.span_M)
        # The candidates of a move are adjacent elements of `value_RO`.
        first_M = options.span_first_S.take(moves.span_M) + moves.relation_M * len(options.score_O)
        value_N = ranges(first_M, count_M)
        bound_N = np.repeat(moves.score_M + moves.future_M, count_M) + self._value_RO.take(value_N)
        popped = _best(bound_N, self._settings.pop_limit)
        move_N = np.repeat(np.arange(len(count_M)), count_M).take(popped)
        option_N = value_N.take(popped) % len(options.score_O)
        entering_N = options.entering_OR[option_N, moves.relation_M[move_N]]

        record_N, future_N = moves.record_M[move_N], moves.future_M[move_N]
        context_NX, states_NX = self._extend(record_N, option_N, is_end=k == self._words)
        score_N = moves.score_M[move_N] + options.score_O[option_N] + entering_N
        score_N += context_NX @ self._model.context_weights
        total_N = score_N + future_N
        coverage_N = moves.coverage_M[move_N]
        best_first = np.argsort(-total_N, kind="stable")
        state_N = _row_numbers([coverage_N, options.exit_O[option_N], *states_NX.T])
        winners, winner_N = _recombine(state_N, best_first)
        winners = winners[: self._number_kept(total_N[winners])]

        coverage_C, first_C, coverage_H = np.unique(coverage_N[winners], return_index=True, return_inverse=True)
        candidates = Hypotheses(option_N, record_N, score_N, context_NX, states_NX)
        record_H = self._graph.add(candidates.take(winners))
        if keep_arcs:
            self._graph.add_arcs(candidates, record_H, winners, winner_N)
        return Stack(record_H, coverage_H, coverage_C, future_N[winners[first_C]], first_word)

    def _number_kept(self, total_H: Floats) -> int:
        size, beam = self._settings.stack or len(total_H), self._settings.beam_threshold
        if not (beam > 0 and len(total_H)):
            return size
        # Compare differences, because adding the beam to a total of 1e17 would be lost to rounding.
        return min(size, int(np.count_nonzero(total_H - total_H[0] > math.log(beam))))

    def _extend(self, record_N: Indices, option_N: Indices, is_end: bool) -> tuple[Floats, Indices]:
        """Return the values of context features for options after hypotheses, and the new states."""
        values, states = [np.zeros((len(record_N), 0))], [np.zeros((len(record_N), 0), np.int64)]
        for i, feature in enumerate(self._model.context_features):
            states_N = self._graph.kept.states_NX[record_N, i]
            value_NK, state_N = feature.extend(states_N, option_N, is_end)
            values.append(value_NK)
            states.append(state_N[:, None])
        return np.concatenate(values, axis=1), np.concatenate(states, axis=1)


def _moves_into(recent: Iterable[tuple[Stack, list[Moves]]], first_word: int) -> Moves:
    """Return the moves from recent stacks into the next one, with the coverages in its window."""
    parts = []
    for length, (stack, by_length) in enumerate(recent):
        part = by_length[length]
        if shift := first_word - stack.first_word:
            part = part._replace(coverage_M=part.coverage_M >> shift)
        parts.append(part)
    return Moves._make(map(np.concatenate, zip(*parts, strict=True)))


def _best(values_N: Floats, limit: int) -> Indices:
    """Return the indices of the `limit` largest values, with all that equal the last one of them; 0 is no limit."""
    if 0 < limit < len(values_N):
        found: Indices = (values_N >= np.partition(values_N, -limit)[-limit]).nonzero()[0]
        return found
    return np.arange(len(values_N))


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


def _recombine(state_N: Indices, best_first: Indices) -> tuple[Indices, Indices]:
    """Return the best candidate of each state, best first, and for each candidate the index of its winner there."""
    _, first, inverse = np.unique(state_N[best_first], return_index=True, return_inverse=True)
    order = np.argsort(first)
    winner_N = np.empty(len(state_N), np.int64)
    winner_N[best_first] = np.argsort(order)[inverse]
    return best_first[first[order]], winner_N
