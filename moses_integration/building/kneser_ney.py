"""Interpolated modified Kneser-Ney estimation of a back-off language model.

It equals KenLM's `lmplz` without pruning (Heafield, Pouzyrevsky, Clark and Koehn: Scalable Modified
Kneser-Ney Language Model Estimation, ACL 2013, section 3; the discounts are those of Chen and Goodman: An Empirical
Study of Smoothing Techniques for Language Modeling, 1998, equation 26), with its 32-bit arithmetic and its order of
n-grams. For a sentence `<s> w_1 ... w_m </s>` and models of order N:

    adjusted count   a(w_1^n) = c(w_1^n) for n = N or w_1 = <s>, else |{v : c(v w_1^n) > 0}|
    t_{n,k}          = |{w_1^n : a(w_1^n) = k}|
    discount         D_n(k) = k - (k + 1) Y_n t_{n,k+1} / t_{n,k},  Y_n = t_{n,1} / (t_{n,1} + 2 t_{n,2}),  k = 1, 2, 3
                     D_n(0) = 0,  D_n(k) = D_n(3) for k > 3
    normalised       u(w_n | w_1^{n-1}) = (a(w_1^n) - D_n(a(w_1^n))) / sum_x a(w_1^{n-1} x)
    back-off         b(w_1^{n-1}) = sum_{k=1}^{3} D_n(k) |{x : min(a(w_1^{n-1} x), 3) = k}| / sum_x a(w_1^{n-1} x)
    interpolated     p(w_n | w_1^{n-1}) = u(w_n | w_1^{n-1}) + b(w_1^{n-1}) p(w_n | w_2^{n-1})
    at the bottom    p(w) = u(w) + b(empty) / V,  V words with <unk> and </s> but without <s>;  a(<unk>) = 0

`<s>` is never predicted; its entry has p = 1, as in lmplz.

Shape suffixes: T tokens of the text with `<s>` and `</s>`; V words; E n-gram tokens, by their end position; G distinct
n-grams of one order, in suffix order (by last word, then by the word before it, and so on); H n-grams of the order
below.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import count, pairwise
from typing import BinaryIO

import numpy as np
from numpy.typing import NDArray

Discounts = NDArray[np.float32]
"""[4]: D(0) = 0, D(1), D(2), D(3 and more)."""

_UNKNOWN, _BEGIN, _END = range(3)
SYMBOLS = (b"<unk>", b"<s>", b"</s>")
_FALLBACK: Discounts = np.array([0, 0.5, 1, 1.5], np.float32)
_LOG_ZERO = np.float32(-99)
"""The logarithm of 0 in ARPA files; KenLM does not load an infinite one."""
_LINES_AT_ONCE = 1 << 17


@dataclass(frozen=True)
class NGrams:
    """The distinct n-grams of one order, in the order of their lines in an ARPA file."""

    first_G: NDArray[np.int32]
    suffix_G: NDArray[np.int64]
    """Index of the n-gram without its first word among the n-grams of the order below."""
    context_G: NDArray[np.int64]
    """Index of the n-gram without its last word among the n-grams of the order below."""
    count_G: NDArray[np.int64]


@dataclass(frozen=True)
class KneserNeyModel:
    """An estimated model. Lists go by order, from 1."""

    words: list[bytes]
    """By id: `<unk>`, `<s>`, `</s>`, then the words in order of first occurrence."""
    ngrams: list[NGrams]
    probabilities: list[NDArray[np.float32]]
    """log10 p(last word | the words before it) of each n-gram, [G]."""
    backoffs: list[NDArray[np.float32]]
    """log10 of the back-off weight of each n-gram, [G], except for the highest order."""
    discounts: list[Discounts]
    """0.5, 1 and 1.5 for orders whose t_{n,k} define none."""

    def write_arpa(self, stream: BinaryIO) -> None:
        """Write an ARPA file; numbers are the shortest decimals that parse to the same 32-bit float."""
        counts = [b"ngram %d=%d\n" % (order, len(ngram.first_G)) for order, ngram in enumerate(self.ngrams, 1)]
        stream.write(b"\\data\\\n" + b"".join(counts))
        for order in range(1, len(self.ngrams) + 1):
            stream.write(b"\n\\%d-grams:\n" % order)
            self._write_order(stream, order)
        stream.write(b"\n\\end\\\n")

    def _write_order(self, stream: BinaryIO, order: int) -> None:
        has_backoff = order < len(self.ngrams)
        before_word = np.array([word + b" " for word in self.words], dtype=object)
        at_end = np.array([word + (b"\t" if has_backoff else b"\n") for word in self.words], dtype=object)
        entries = len(self.ngrams[order - 1].first_G)
        for start in range(0, entries, _LINES_AT_ONCE):
            chunk = slice(start, start + _LINES_AT_ONCE)
            columns = [_decimals(self.probabilities[order - 1][chunk], b"\t")]
            suffixes = np.arange(entries)[chunk]
            for ngram in self.ngrams[order - 1 : 0 : -1]:
                columns.append(before_word[ngram.first_G[suffixes]])
                suffixes = ngram.suffix_G[suffixes]
            columns.append(at_end[self.ngrams[0].first_G[suffixes]])
            if has_backoff:
                columns.append(_decimals(self.backoffs[order - 1][chunk], b"\n"))
            stream.write(b"".join(np.stack(columns, axis=1).ravel().tolist()))


def estimate(text: Iterable[bytes], order: int) -> KneserNeyModel:
    """Estimate a model of a text, in chunks of whole lines, words separated by spaces, without words of `SYMBOLS`.

    Every line is a sentence, even an empty one. Memory is proportional to the text (see `memory_needed`).
    """
    words, tokens_T = _number_words(text)
    ngrams = _count_ngrams(tokens_T, len(words), order)
    adjusted = _adjust_counts(ngrams)
    discounts = [_estimate_discounts(counts_G) for counts_G in _counts_for_discounts(ngrams, adjusted)]
    return KneserNeyModel(words, ngrams, *_interpolate(ngrams, adjusted, discounts), discounts)


def memory_needed(tokens: int, order: int) -> int:
    """Return the approximate bytes of memory of `estimate`: the measured peak with 4 million random words.

    Their n-grams, of Zipf frequencies, repeat less than those of real text. Text without repetition takes 50 % more.
    """
    return (23 * order + 25) * tokens


def _number_words(text: Iterable[bytes]) -> tuple[list[bytes], NDArray[np.int32]]:
    """Return the words by id, and the ids of the text with `<s>` and `</s>` around each line."""
    ids: defaultdict[bytes, int] = defaultdict(count(len(SYMBOLS)).__next__)
    # The line feed has the id of </s>, so that one look-up serves words and line ends.
    ids.update({b"<unk>": _UNKNOWN, b"<s>": _BEGIN, b"\n": _END})
    chunks = []
    for chunk in text:
        words = chunk.replace(b"\n", b" \n ").split(b" ")
        chunks.append(np.fromiter(map(ids.__getitem__, filter(None, words)), np.int32))
    tokens_T = np.concatenate(chunks)
    starts = np.append(0, np.flatnonzero(tokens_T == _END)[:-1] + 1)
    return [*SYMBOLS, *list(ids)[len(SYMBOLS) :]], np.insert(tokens_T, starts, _BEGIN)


def _count_ngrams(tokens_T: NDArray[np.int32], vocabulary_size: int, order: int) -> list[NGrams]:
    count_G = np.bincount(tokens_T, minlength=vocabulary_size)
    # <s> is not predicted.
    count_G[_BEGIN] = 0
    empty_G = np.zeros(vocabulary_size, np.int64)
    ngrams = [NGrams(np.arange(vocabulary_size, dtype=np.int32), empty_G, empty_G, count_G)]
    index_T = tokens_T.astype(np.int64)  # of the n-gram that ends here
    end_E = np.arange(len(tokens_T))
    for length in range(2, order + 1):
        # An n-gram does not extend beyond its sentence.
        end_E = end_E[tokens_T[end_E - length + 2] != _BEGIN]
        # Suffix order: by the index of the suffix, then by the first word.
        key_E = index_T[end_E] * vocabulary_size + tokens_T[end_E - length + 1]
        key_G, index_E, count_G = np.unique(key_E, return_inverse=True, return_counts=True)
        context_G = np.empty(len(key_G), np.int64)
        context_G[index_E] = index_T[end_E - 1]
        suffix_G, first_G = np.divmod(key_G, vocabulary_size)
        ngrams.append(NGrams(first_G.astype(np.int32), suffix_G, context_G, count_G))
        index_T[end_E] = index_E
    return ngrams


def _adjust_counts(ngrams: list[NGrams]) -> list[NDArray[np.int64]]:
    """Return a(w_1^n) of each order [G]."""
    adjusted = []
    for ngram, longer in pairwise(ngrams):
        extensions_G = np.bincount(longer.suffix_G, minlength=len(ngram.first_G))
        adjusted.append(np.where(ngram.first_G == _BEGIN, ngram.count_G, extensions_G))
    return [*adjusted, ngrams[-1].count_G]


def _counts_for_discounts(ngrams: list[NGrams], adjusted: list[NDArray[np.int64]]) -> list[NDArray[np.int64]]:
    """Return the counts [G] from which lmplz computes t_{n,k}.

    They are the adjusted counts except for one n-gram of each order: at the end of its input, lmplz enters the open
    n-grams, which are suffixes of the last one in suffix order, with their unadjusted counts
    (lm/builder/adjust_counts.cc, the loop after "This outputs the last n-grams").
    """
    statistics = [counts_G.copy() for counts_G in adjusted]
    for ngram, counts_G in zip(ngrams, statistics, strict=True):
        counts_G[-1] = ngram.count_G[-1]
        if ngram.first_G[-1] == _BEGIN:
            break
    return statistics


def _estimate_discounts(counts_G: NDArray[np.int64]) -> Discounts:
    """Return D(0) to D(3), those of lmplz's `--discount_fallback` if one is undefined or negative."""
    t = np.bincount(np.minimum(counts_G, 5), minlength=5)[:5]
    if not t[1:4].all():
        return _FALLBACK
    k, t_k = np.arange(5, dtype=np.float32), t.astype(np.float32)
    y = t_k[1] / np.float32(t[1] + 2 * t[2])
    discounts = np.zeros(4, np.float32)
    discounts[1:] = k[1:4] - k[2:] * y * t_k[2:] / t_k[1:4]
    return discounts if (discounts >= 0).all() else _FALLBACK


def _interpolate(
    ngrams: list[NGrams], adjusted: list[NDArray[np.int64]], discounts: list[Discounts]
) -> tuple[list[NDArray[np.float32]], list[NDArray[np.float32]]]:
    """Return log10 p of all n-grams, and log10 b of all except the highest order."""
    # The order below the unigrams has one n-gram, the empty one, with a uniform distribution.
    probability_H = np.array([1 / np.float32(len(ngrams[0].first_G) - 1)], np.float32)
    probabilities: list[NDArray[np.float32]] = []
    backoffs: list[NDArray[np.float32]] = []
    for ngram, counts_G, discount in zip(ngrams, adjusted, discounts, strict=True):
        normalised_G, backoff_H = _normalise(ngram.context_G, counts_G, discount, len(probability_H))
        probability_H = normalised_G + backoff_H[ngram.context_G] * probability_H[ngram.suffix_G]
        if not probabilities:
            probability_H[_BEGIN] = 1
        probabilities.append(np.minimum(_log10(probability_H), 0))
        backoffs.append(_log10(backoff_H))
    # The first back-off weight is that of the empty n-gram.
    return probabilities, backoffs[1:]


def _normalise(
    context_G: NDArray[np.int64], counts_G: NDArray[np.int64], discount: Discounts, contexts: int
) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """Return u of each n-gram [G] and b of each n-gram of the order below [H], 1 if it is not a context."""
    sum_H = np.bincount(context_G, counts_G, contexts).astype(np.float32)
    level_G = np.minimum(counts_G, 3)
    normalised_G = (counts_G.astype(np.float32) - discount[level_G]) / sum_H[context_G]
    backoff_H = np.zeros(contexts, np.float32)
    for level in (1, 2, 3):
        backoff_H += discount[level] * np.bincount(context_G[level_G == level], minlength=contexts).astype(np.float32)
    return normalised_G, np.divide(backoff_H, sum_H, out=np.ones_like(sum_H), where=sum_H > 0)


def _log10(values_G: NDArray[np.float32]) -> NDArray[np.float32]:
    """Compute in double, because 32-bit logarithms of C libraries and NumPy differ in the last bit."""
    with np.errstate(divide="ignore"):
        return np.maximum(np.log10(values_G.astype(np.float64)).astype(np.float32), _LOG_ZERO)


def _decimals(values_G: NDArray[np.float32], end: bytes) -> NDArray[np.object_]:
    """Format numbers with an end; values repeat, so each distinct one is formatted once."""
    distinct, index_G = np.unique(values_G, return_inverse=True)
    spelled: NDArray[np.object_] = np.array([text + end for text in distinct.astype("S").tolist()], dtype=object)
    return spelled[index_G]
