"""Minimum Bayes risk: combine n-best lists, also of different systems, without common features.

Each list gives a probability distribution of a sentence's translations: the softmax of the totals times a scale.
The combination is the weighted mean of these distributions. Its choice has the highest expected BLEU:

    argmax_d sum_r P(r) BLEU(d, r), with the translations d and r of all lists

Kumar and Byrne, "Minimum Bayes-Risk Decoding for Statistical Machine Translation" (HLT-NAACL 2004). BLEU of a sentence
is smoothed (see `smoothed_bleu`). The totals of tuned systems have no common scale. So the scale of a list is the one
at which its distributions have a given perplexity, that is, at which they are as wide as uniform distributions over
this number of translations.

Legend: E entries of a sentence, D distinct translations of a sentence, R of these (a block of rows), N occurrences of
n-grams, 9 statistics of BLEU.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Self

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from moses_integration.nbest import ListFault, NbestEntry
from moses_integration.tuning.bleu import MAX_ORDER, STATISTICS, smoothed_bleu
from phrasescore.words import parse_number, quote, split_words

Floats = NDArray[np.float64]

_LOG_SCALES = (-20.0, 40.0)
"""Natural logs of the smallest and largest scale, for lists whose totals differ by at most 1 in a sentence."""
_HALVINGS = 50
_LARGEST_TOTAL = float(np.finfo(np.float32).max)
_ROWS_AT_ONCE = 256
"""Translations whose statistics against all others are in memory at a time."""


@dataclass(frozen=True)
class Posterior:
    """The probabilities of the translations of a list, by sentence number."""

    scale: float
    probs: Mapping[int, Mapping[bytes, float]]

    @classmethod
    def of_list(cls, entries: Sequence[NbestEntry], perplexity: float) -> Self:
        """Return the distributions with this mean perplexity.

        Sentences with one translation do not count. With too few translations, all distributions are uniform.
        """
        sentences = [_Totals.of([*group]) for _, group in groupby(entries, key=lambda entry: entry.sentence)]
        scale = _scale_of([one for one in sentences if len(one.translations) > 1], perplexity)
        return cls(scale, {one.sentence: one.probs(scale) for one in sentences})


@dataclass(frozen=True)
class _Totals:
    """The totals of a sentence, and the translations of its entries."""

    sentence: int
    totals_E: Floats
    index_E: NDArray[np.int64]
    """Positions in `translations`."""
    translations: list[bytes]

    @classmethod
    def of(cls, group: Sequence[NbestEntry]) -> Self:
        positions: dict[bytes, int] = {}
        index_E = np.array([positions.setdefault(entry.words, len(positions)) for entry in group], np.int64)
        totals_E = np.array([_total(entry) for entry in group])
        # Without its maximum, because the exponential of a large total would overflow.
        return cls(group[0].sentence, totals_E - totals_E.max(), index_E, [*positions])

    def probs_D(self, scale: float) -> Floats:
        """Return the probabilities of the translations; derivations of one translation share its probability."""
        sums_D = np.bincount(self.index_E, np.exp(scale * self.totals_E), len(self.translations))
        probs_D: Floats = sums_D / sums_D.sum()
        return probs_D

    def probs(self, scale: float) -> dict[bytes, float]:
        return dict(zip(self.translations, self.probs_D(scale).tolist(), strict=True))


def _total(entry: NbestEntry) -> float:
    total = parse_number(entry.total)
    if abs(total) > _LARGEST_TOTAL:
        raise ListFault(f"has a total beyond 32 bits: {quote(entry.total)}; correct it")
    return total


def combine(posteriors: Sequence[Posterior], weights: Sequence[float], sentence_count: int) -> Iterator[bytes]:
    """Yield the translation of each sentence with the highest expected BLEU, empty for a sentence without any.

    `weights` are those of the lists in the mean, for example 1 for each; 0 leaves a list out.
    """
    weighted = [(one, weight / max(weights)) for one, weight in zip(posteriors, weights, strict=True) if weight]
    for sentence in range(sentence_count):
        mean: defaultdict[bytes, float] = defaultdict(float)
        for posterior, weight in weighted:
            for words, prob in posterior.probs.get(sentence, {}).items():
                mean[words] += weight * prob
        translations = [*mean]
        expected_D = expected_bleu(translations, np.array([*mean.values()]))
        yield translations[int(expected_D.argmax())] if translations else b""


def expected_bleu(translations: Sequence[bytes], probs_D: Floats) -> Floats:
    """Return the expected smoothed sentence BLEU of each translation, [D]; the references are all translations."""
    split = [split_words(words) for words in translations]
    lengths_D = np.array([len(words) for words in split], np.int64)
    occurrences = [_occurrences(split, order) for order in range(1, MAX_ORDER + 1)]
    expected_D = np.zeros(len(split))
    for start in range(0, len(split), _ROWS_AT_ONCE):
        rows = slice(start, start + _ROWS_AT_ONCE)
        statistics_RD9 = np.empty((len(lengths_D[rows]), len(split), STATISTICS), np.int32)
        for order, occurs_DN in enumerate(occurrences, 1):
            statistics_RD9[..., 2 * order - 2] = (occurs_DN[rows] @ occurs_DN.T).toarray()
            statistics_RD9[..., 2 * order - 1] = np.maximum(lengths_D[rows] - order + 1, 0)[:, np.newaxis]
        statistics_RD9[..., -1] = lengths_D
        expected_D[rows] = np.einsum("rd,d->r", smoothed_bleu(statistics_RD9), probs_D)
    return expected_D


def _occurrences(translations: Sequence[list[bytes]], order: int) -> csr_array:
    """Return which occurrences of n-grams each translation has, [D, N], as 0 and 1.

    The product of two rows is the number of clipped matches: the k-th occurrence of an n-gram in one translation
    matches the k-th one in the other.
    """
    columns: dict[tuple[tuple[bytes, ...], int], int] = {}
    indices: list[int] = []
    ends = [0]
    for words in translations:
        seen: Counter[tuple[bytes, ...]] = Counter()
        for ngram in zip(*(words[start:] for start in range(order)), strict=False):
            indices.append(columns.setdefault((ngram, seen[ngram]), len(columns)))
            seen[ngram] += 1
        ends.append(len(indices))
    return csr_array((np.ones(len(indices), np.int32), indices, ends), (len(translations), len(columns)))


def _scale_of(sentences: Sequence[_Totals], perplexity: float) -> float:
    """Return the scale at which the distributions of these sentences have this perplexity, exp(mean entropy)."""
    largest_range = max((-float(one.totals_E.min()) for one in sentences), default=0.0)
    if largest_range == 0:
        return 0.0

    def entropy(log_scale: float) -> float:
        scale = math.exp(log_scale) / largest_range
        return float(np.mean([_entropy(one.probs_D(scale)) for one in sentences]))

    desired, (flat, sharp) = math.log(perplexity), _LOG_SCALES
    if entropy(flat) <= desired:
        return 0.0
    for _ in range(_HALVINGS):
        middle = (flat + sharp) / 2
        flat, sharp = (middle, sharp) if entropy(middle) > desired else (flat, middle)
    return math.exp(flat) / largest_range


def _entropy(probs_D: Floats) -> float:
    """Return the entropy in nats."""
    positive = probs_D[probs_D > 0]
    return -float(positive @ np.log(positive))
