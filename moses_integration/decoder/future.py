"""Future scores: the best possible score of the uncovered part of a sentence.

Shapes: S spans that have options, n words, l words of a range.
"""

from __future__ import annotations

import numpy as np

from moses_integration.decoder.phrases import Floats, Indices
from moses_integration.decoder.translation_options import Options


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
