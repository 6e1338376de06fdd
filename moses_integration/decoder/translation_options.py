"""The translation options of a sentence as arrays.

Shapes: O options of a sentence, S spans that have options, n words, F components of all features, R relations.
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
