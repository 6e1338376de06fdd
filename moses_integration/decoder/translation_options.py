"""The translation options of a sentence as arrays, and the future scores that follow from them.

Shapes: O options of a sentence, S spans that have options, n words, l words of a range, F components of all features,
R relations.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from operator import add
from typing import TypeVar

import numpy as np

from moses_integration.decoder.model import LogLinearModel, Translations
from moses_integration.decoder.phrases import Floats, Indices, TargetPhrase, Words, spans
from moses_integration.decoder.reordering import RELATIONS
from phrasescore.phrases import offsets_of

Key = TypeVar("Key", bound=Hashable)

NO_OPTION = -1
"""The option before the first phrase, at the start of the sentence: the last element of the arrays for options."""


@dataclass(frozen=True)
class Options:
    """The options of all spans; options of a span are adjacent, best first.

    Spans are ordered by length, then by start, so spans of equal length are a slice.
    """

    sentence: Words
    span_start_S: Indices
    span_end_S: Indices
    span_first_S: Indices
    """Index of the first option of each span, then the number of options [S + 1]."""
    targets: list[TargetPhrase]
    phrase_O: Indices
    """Index of the option's target words in `phrases`."""
    phrases: list[Words]
    start_O: Indices
    end_O: Indices
    """Source range of the option, inclusive, and -1 for `NO_OPTION` [O + 1]."""
    rows: dict[str, Floats]
    """Label of a jump feature -> its rows, and zeros for `NO_OPTION` [O + 1, any width]."""
    values_OF: Floats
    score_O: Floats
    """Weighted score of the option without context."""
    future_O: Floats
    """The score with the estimates of the language models (moses/TargetPhrase.cpp, future score)."""
    entering_OR: Floats
    """Weighted score of the option's relation to the previous phrase."""
    leaving_OR: Floats
    """Weighted score of the next phrase's relation to the option, 0 for `NO_OPTION` [O + 1, R]."""
    best_SR: Floats
    """The best sum of `future_O` and `entering_OR` in each span."""
    exit_O: Indices
    """Options with equal numbers leave the reordering features in the same state."""

    def copied_words(self) -> list[int]:
        """Return the positions of the words without a single-word entry in the table."""
        first_options = zip(self.span_start_S.tolist(), self.span_first_S.tolist(), strict=False)
        return [start for start, option in first_options if self.targets[option].scores is None]


def collect_options(model: LogLinearModel, sentence: Words, longest: int) -> Options:
    """Return the options of all spans of at most `longest` words."""
    found = {
        span: translations
        for span in spans(sentence, longest)
        if (translations := model.translations(sentence[span[0] : span[1] + 1])) is not None
    }
    counts = [len(translations.targets) for translations in found.values()]
    return assemble_options(model, sentence, list(found), counts, model.joined(list(found.values())))


def assemble_options(
    model: LogLinearModel,
    sentence: Words,
    spans: Sequence[tuple[int, int]],
    counts: Sequence[int],
    found: Translations,
) -> Options:
    """Return the options of given spans (first, last word) of a sentence; `counts` are their numbers of options."""
    span_S2, counts_S = np.array(spans, np.int64).reshape(-1, 2), np.array(counts, np.int64)
    phrase_O, phrases = _numbered([target.words for target in found.targets])
    score_O = found.values_TF @ model.weights_F
    future_O = score_O + found.estimate_TF @ model.weights_F
    first_S = offsets_of(counts_S)
    rows, entering_OR, leaving_OR = _jump_scores(model, found)
    range_O2 = np.concatenate([np.repeat(span_S2, counts_S, axis=0), [[-1, -1]]])
    exit_OK = np.column_stack([range_O2, leaving_OR])[:-1]
    exit_O, _ = _numbered(exit_OK.view(f"V{exit_OK.strides[0]}").ravel().tolist())
    return Options(
        sentence=sentence,
        span_start_S=span_S2[:, 0],
        span_end_S=span_S2[:, 1],
        span_first_S=first_S,
        targets=found.targets,
        phrase_O=phrase_O,
        phrases=phrases,
        start_O=range_O2[:, 0],
        end_O=range_O2[:, 1],
        rows=rows,
        values_OF=found.values_TF,
        score_O=score_O,
        future_O=future_O,
        entering_OR=entering_OR,
        leaving_OR=leaving_OR,
        best_SR=np.maximum.reduceat(future_O[:, None] + entering_OR, first_S[:-1]) if spans else entering_OR,
        exit_O=exit_O,
    )


def _numbered(keys: Sequence[Key]) -> tuple[Indices, list[Key]]:
    """Return the number of each key, in order of first occurrence, and the distinct keys."""
    numbers = {key: number for number, key in enumerate(dict.fromkeys(keys))}
    return np.array(list(map(numbers.__getitem__, keys)), np.int64), list(numbers)


def _jump_scores(model: LogLinearModel, found: Translations) -> tuple[dict[str, Floats], Floats, Floats]:
    """Return the rows of the jump features, and the weighted scores of entering and leaving an option."""
    rows, options = {}, len(found.targets)
    entering_OR, leaving_OR = np.zeros((options, len(RELATIONS))), np.zeros((options + 1, len(RELATIONS)))
    for feature in model.jump_features:
        weights_K = model.weights_F[model.columns[feature.label]]
        # `NO_OPTION` has zeros.
        row_OK = found.rows[feature.label]
        rows[feature.label] = row_OK = np.vstack([row_OK, np.zeros(row_OK.shape[1])])
        entering_OR += feature.entering(row_OK[:-1], weights_K)
        leaving_OR[:-1] += feature.leaving(row_OK[:-1], weights_K)
    return rows, entering_OR, leaving_OR


class FutureScores:
    """The best score of translating a range of words (moses/TranslationOptionCollection.cpp, future cost).

    It is that of the best sequence of spans, without reordering and the end of the sentence. Under a distortion limit
    each range is short or ends with the sentence, so no table of all ranges is needed.
    """

    def __init__(self, options: Options, longest_range: int) -> None:
        """Compute the scores of ranges of at most `longest_range` words and of those that end with the sentence."""
        span_nl = _best_of_spans(options)
        short_nl = _best_of_short_ranges(span_nl, min(longest_range, len(options.sentence)))
        self._score_nl = np.column_stack([short_nl, _best_to_end(span_nl)])

    def __call__(self, start_N: Indices, end_N: Indices) -> Floats:
        # A longer range than the longest ends with the sentence.
        score_N: Floats = self._score_nl[start_N, np.minimum(end_N - start_N, self._score_nl.shape[1] - 1)]
        return score_N


def _best_of_spans(options: Options) -> Floats:
    """Return the best score of an option of l words from word n on [n + 1, l + 1], -inf if there is none."""
    length_S = options.span_end_S - options.span_start_S + 1
    span_nl = np.full((len(options.sentence) + 1, int(length_S.max(initial=0)) + 1), -np.inf)
    if len(length_S):
        span_nl[options.span_start_S, length_S] = np.maximum.reduceat(options.future_O, options.span_first_S[:-1])
    return span_nl


def _best_of_short_ranges(span_nl: Floats, longest: int) -> Floats:
    """Return the best score of translating l words from word n on [n + 1, longest + 1]: a span, then the rest."""
    best_nl = np.full((len(span_nl), longest + 1), -np.inf)
    best_nl[:, 0] = 0.0
    for length in range(1, longest + 1):
        starts = len(span_nl) - length
        for first in range(1, min(length, span_nl.shape[1] - 1) + 1):
            score_n = span_nl[:starts, first] + best_nl[first : first + starts, length - first]
            np.maximum(best_nl[:starts, length], score_n, out=best_nl[:starts, length])
    return best_nl


def _best_to_end(span_nl: Floats) -> Floats:
    """Return the best score of translating all words from word n on [n + 1]."""
    # Backwards from the end of the sentence, so that `best` starts with the next word.
    best = deque([0.0])
    for span_l in span_nl[-2::-1, 1:].tolist():
        best.appendleft(max(map(add, span_l, best), default=-math.inf))
    return np.array(best)
