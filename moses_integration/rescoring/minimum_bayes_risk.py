"""Minimum Bayes risk: combine n-best lists, also of different systems, without common features.

Each list gives a distribution of a sentence's translations: the softmax of its totals times a scale. The combination
is the weighted mean of these distributions, and the chosen translation has the highest expected BLEU under it:

    argmax_d sum_r P(r) BLEU(d, r), with the translations d and r of all lists

Kumar and Byrne, "Minimum Bayes-Risk Decoding for Statistical Machine Translation" (HLT-NAACL 2004). BLEU of a sentence
is smoothed (see `smoothed_bleu`). The totals of tuned systems have no common scale. So the scale of a list is the one
at which its distributions have a given perplexity, that is, at which they are as wide as uniform distributions over
so many translations.

Legend: E entries of a list, D distinct translations of a sentence, 9 statistics of BLEU.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Self

import numpy as np
from numpy.typing import NDArray

from moses_integration.nbest import ListFault, NbestEntry
from moses_integration.tuning.bleu import MAX_ORDER, STATISTICS, smoothed_bleu
from phrasescore.words import parse_number, split_words

Floats = NDArray[np.float64]

_LOG_SCALES = (-20.0, 20.0)
"""Natural logs of the smallest and largest scale."""
_HALVINGS = 40
"""Bisections of that range, to a relative error of 1e-10."""


@dataclass(frozen=True)
class Posterior:
    """The probabilities of the translations of a list, by sentence number."""

    scale: float
    probs: dict[int, dict[bytes, float]]

    @classmethod
    def of_list(cls, entries: Sequence[NbestEntry], perplexity: float) -> Self:
        """Return the distributions with this mean perplexity, or uniform ones if the list is too short for it."""
        groups = {sentence: [*group] for sentence, group in groupby(entries, key=lambda entry: entry.sentence)}
        totals = [np.array([parse_number(entry.total) for entry in group]) for group in groups.values()]
        scale = _scale_of(totals, perplexity)
        probs: dict[int, dict[bytes, float]] = {}
        for (sentence, group), totals_E in zip(groups.items(), totals, strict=True):
            # Derivations of one translation share its probability.
            probs[sentence] = defaultdict(float)
            for entry, prob in zip(group, _softmax(scale * totals_E).tolist(), strict=True):
                probs[sentence][entry.words] += prob
        return cls(scale, probs)


def combine(posteriors: Sequence[Posterior], weights: Sequence[float], sentence_count: int) -> list[bytes]:
    """Return the translation of each sentence with the highest expected BLEU, empty for a sentence without any.

    `weights` are those of the lists in the mean, for example 1 for each.
    """
    chosen = []
    for sentence in range(sentence_count):
        mean: defaultdict[bytes, float] = defaultdict(float)
        for posterior, weight in zip(posteriors, weights, strict=True):
            for words, prob in posterior.probs.get(sentence, {}).items():
                mean[words] += weight * prob
        translations = [*mean]
        expected_D = pairwise_bleu(translations) @ np.array([*mean.values()])
        chosen.append(translations[int(expected_D.argmax())] if translations else b"")
    return chosen


def pairwise_bleu(translations: Sequence[bytes]) -> Floats:
    """Return smoothed sentence BLEU, from 0 to 1, of each translation [row] against each as reference [column]."""
    split = [split_words(words) for words in translations]
    lengths_D = np.array([len(words) for words in split], np.int64)
    statistics_DD9 = np.empty((len(split), len(split), STATISTICS), np.int64)
    for order in range(1, MAX_ORDER + 1):
        statistics_DD9[..., 2 * order - 2] = _matches(split, order)
        statistics_DD9[..., 2 * order - 1] = np.maximum(lengths_D - order + 1, 0)[:, np.newaxis]
    statistics_DD9[..., -1] = lengths_D
    return smoothed_bleu(statistics_DD9)


def _matches(translations: Sequence[list[bytes]], order: int) -> NDArray[np.float32]:
    """Return the clipped matches of n-grams of each pair of translations, [D, D].

    The k-th occurrence of an n-gram in one translation matches the k-th one in the other, which clips the counts. So
    the matches are products of vectors of zeros and ones.
    """
    columns: dict[tuple[tuple[bytes, ...], int], int] = {}
    rows: list[list[int]] = []
    for words in translations:
        seen: Counter[tuple[bytes, ...]] = Counter()
        rows.append([])
        for ngram in zip(*(words[start:] for start in range(order)), strict=False):
            rows[-1].append(columns.setdefault((ngram, seen[ngram]), len(columns)))
            seen[ngram] += 1
    occurs_DN = np.zeros((len(rows), len(columns)), np.float32)
    for occurs_N, row in zip(occurs_DN, rows, strict=True):
        occurs_N[row] = 1
    matches_DD: NDArray[np.float32] = occurs_DN @ occurs_DN.T
    return matches_DD


def _scale_of(totals: Sequence[Floats], perplexity: float) -> float:
    """Return the scale at which the distributions of all sentences have this perplexity, exp(mean entropy)."""
    if not totals:
        raise ListFault("has no translations; give the list of a text")

    desired = math.log(perplexity)

    def entropy(scale: float) -> float:
        return float(np.mean([_entropy(_softmax(scale * totals_E)) for totals_E in totals]))

    flat, sharp = _LOG_SCALES
    if entropy(math.exp(flat)) <= desired:
        return 0.0
    for _ in range(_HALVINGS):
        middle = (flat + sharp) / 2
        flat, sharp = (middle, sharp) if entropy(math.exp(middle)) > desired else (flat, middle)
    return math.exp(flat)


def _softmax(logits_E: Floats) -> Floats:
    probs_E = np.exp(logits_E - logits_E.max())
    normalised_E: Floats = probs_E / probs_E.sum()
    return normalised_E


def _entropy(probs_E: Floats) -> float:
    """Return the entropy in nats."""
    positive = probs_E[probs_E > 0]
    return -float(positive @ np.log(positive))
