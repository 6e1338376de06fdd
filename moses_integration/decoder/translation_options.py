"""The translation options of a sentence as arrays, and the future scores that follow from them.

Shapes: O options of a sentence, S spans that have options, n words, l words of a range, F components of all features,
R relations.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from moses_integration.decoder.model import LogLinearModel, Translations
from moses_integration.decoder.phrases import Floats, Indices, TargetPhrase, Words, spans
from moses_integration.decoder.reordering import RELATIONS
from phrasescore.phrases import offsets_of


@dataclass(frozen=True)
class Options:
    """The options of all spans; options of a span are adjacent, best first.

    Spans are ordered by length, then by start, so spans of equal length are a slice.
    """

    words: int
    span_start_S: Indices
    span_end_S: Indices
    """Inclusive."""
    span_first_S: Indices
    """Index of the first option of each span, then the number of options [S + 1]."""
    span_O: Indices
    targets: list[TargetPhrase]
    phrase_O: Indices
    """Index of the option's target words in `phrases`."""
    phrases: list[Words]
    values_OF: Floats
    rows: dict[str, Floats]
    """Label of a jump feature -> its rows [O, any width]."""
    score_O: Floats
    """Weighted score of the option without context."""
    future_O: Floats
    """The score with the estimates of the language models (moses/TargetPhrase.cpp, future score)."""
    entering_OR: Floats
    leaving_OR: Floats
    """Weighted scores of the option's relation to the previous phrase, and of the next phrase to the option."""
    exit_O: Indices
    """Options with equal numbers leave the reordering features in the same state."""

    @cached_property
    def start_O(self) -> Indices:
        """First source word of each option."""
        return self.span_start_S[self.span_O]

    @cached_property
    def end_O(self) -> Indices:
        """Last source word of each option."""
        return self.span_end_S[self.span_O]

    def start_or_none(self, option_N: Indices) -> Indices:
        """Return the first word of options; -1 for option -1, the start of the sentence."""
        return np.where(option_N >= 0, self.start_O[option_N], -1)

    def end_or_none(self, option_N: Indices) -> Indices:
        """Return the last word of options; -1 for option -1."""
        return np.where(option_N >= 0, self.end_O[option_N], -1)

    def leaving_or_zero(self, option_N: Indices, relation_N: Indices) -> Floats:
        """Return the scores of the next phrase's relation to options; 0 for option -1."""
        return np.where(option_N >= 0, self.leaving_OR[option_N, relation_N], 0.0)


def collect_options(model: LogLinearModel, sentence: Words, longest: int) -> Options:
    """Return the options of all spans of at most `longest` words."""
    translated: list[tuple[int, int]] = []
    found: list[Translations] = []
    for start, end in spans(sentence, longest):
        translations = model.translations(sentence[start : end + 1])
        if translations is not None:
            translated.append((start, end))
            found.append(translations)
    return assemble_options(model, len(sentence), translated, found)


def assemble_options(
    model: LogLinearModel, words: int, spans: Sequence[tuple[int, int]], found: Sequence[Translations]
) -> Options:
    """Return the options of given spans (first, last word) of a sentence of `words` words."""
    span_S2 = np.array(spans, np.int64).reshape(-1, 2)
    counts_S = np.array([len(translations.targets) for translations in found], np.int64)
    targets = [target for translations in found for target in translations.targets]
    values_OF = np.concatenate([np.zeros((0, model.width)), *(t.values_TF for t in found)])
    estimate_OF = np.concatenate([np.zeros((0, model.width)), *(t.estimate_TF for t in found)])
    numbers: dict[Words, int] = {}
    phrase_O = np.array([numbers.setdefault(target.words, len(numbers)) for target in targets], np.int64)
    score_O = values_OF @ model.weights_F
    entering_OR, leaving_OR = (np.zeros((len(targets), len(RELATIONS))) for _ in range(2))
    rows = {}
    for feature in model.jump_features:
        weights_K = model.weights_F[model.columns[feature.label]]
        # Gives the array its width for a sentence without options.
        none = feature.rows((), ())
        rows[feature.label] = row_OK = np.concatenate([none, *(t.rows[feature.label] for t in found)])
        entering_OR += feature.entering(row_OK, weights_K)
        leaving_OR += feature.leaving(row_OK, weights_K)
    span_O = np.repeat(np.arange(len(spans)), counts_S)
    exits = np.column_stack([span_S2[span_O], leaving_OR])
    _, exit_O = np.unique(exits, axis=0, return_inverse=True)
    return Options(
        words=words,
        span_start_S=span_S2[:, 0],
        span_end_S=span_S2[:, 1],
        span_first_S=offsets_of(counts_S),
        span_O=span_O,
        targets=targets,
        phrase_O=phrase_O,
        phrases=list(numbers),
        values_OF=values_OF,
        rows=rows,
        score_O=score_O,
        future_O=score_O + estimate_OF @ model.weights_F,
        entering_OR=entering_OR,
        leaving_OR=leaving_OR,
        exit_O=exit_O.ravel(),
    )


class FutureScores:
    """The best score of translating a range of words (moses/TranslationOptionCollection.cpp, future cost).

    It is that of the best sequence of spans, without reordering and the end of the sentence. Under a distortion limit
    each range is short or ends with the sentence, so no table of all ranges is needed.
    """

    def __init__(self, options: Options, longest_range: int) -> None:
        """Compute the scores of ranges of at most `longest_range` words and of those that end with the sentence."""
        self._words = options.words
        span_Sl = _best_of_spans(options)
        self._short_nl = _best_of_short_ranges(span_Sl, min(longest_range, options.words))
        self._to_end_n = _best_to_end(span_Sl)

    def __call__(self, start_N: Indices, end_N: Indices) -> Floats:
        """Return the scores [N] of ranges (`end_N` is exclusive); 0 for empty ranges."""
        length_N = np.where(end_N == self._words, 0, end_N - start_N)
        return np.where(end_N == self._words, self._to_end_n[start_N], self._short_nl[start_N, length_N])


def _best_of_spans(options: Options) -> Floats:
    """Return the best score of an option of l words from word n on [n + 1, l + 1], -inf if there is none."""
    length_S = options.span_end_S - options.span_start_S + 1
    span_nl = np.full((options.words + 1, int(length_S.max(initial=0)) + 1), -np.inf)
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
    last = len(span_nl) - 1
    best_n = np.full(last + 1, -np.inf)
    best_n[last] = 0.0
    for start in range(last - 1, -1, -1):
        ends = min(span_nl.shape[1] - 1, last - start)
        if ends:
            best_n[start] = (span_nl[start, 1 : ends + 1] + best_n[start + 1 : start + ends + 1]).max()
    return best_n
