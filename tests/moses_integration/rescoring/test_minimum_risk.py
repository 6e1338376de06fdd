"""Minimum Bayes risk compared with a direct computation of its definition."""

from __future__ import annotations

import math
import random

import numpy as np
import pytest

from moses_integration.nbest import NbestEntry
from moses_integration.rescoring.reranking import rank_by_gain, tune_scale
from moses_integration.tuning.bleu import bleu_statistics, pairwise_statistics, smoothed_bleu
from tests.moses_integration.corpus_bleu import corpus_bleu

DRAW = random.Random(1)
# Repeated words make matches that are clipped; equal translations share their probability.
TEXTS = [b" ".join(DRAW.choices([b"a", b"b", b"c"], k=DRAW.randint(0, 8))) for _ in range(25)]
LIST = [NbestEntry(n // 10, text, b"A= 1", b"%g" % DRAW.uniform(-3, 0)) for n, text in enumerate([*TEXTS, *TEXTS[20:]])]


def gain(entry: NbestEntry, scale: float) -> float:
    others = [other for other in LIST if other.sentence == entry.sentence]
    weights = [math.exp(scale * float(other.total)) for other in others]
    gains = [float(smoothed_bleu(bleu_statistics([other.words], [entry.words])[0])) for other in others]
    return sum(w * g for w, g in zip(weights, gains, strict=True)) / sum(weights)


def test_pairwise_statistics_are_those_of_each_pair() -> None:
    found = pairwise_statistics(TEXTS)
    assert np.array_equal(found, np.stack([bleu_statistics([text], TEXTS) for text in TEXTS], axis=1))


@pytest.mark.parametrize("scale", [0.25, 1.0, 16.0, 200.0])
def test_translations_are_ranked_by_their_expected_bleu(scale: float) -> None:
    ranked = rank_by_gain(LIST, scale)
    for sentence in range(3):
        gains = [gain(entry, scale) for entry in LIST if entry.sentence == sentence]
        found = [float(entry.total) for entry in ranked if entry.sentence == sentence]
        assert found == pytest.approx(sorted(gains, reverse=True), abs=1e-5)
    assert sorted(entry.words for entry in ranked) == sorted(entry.words for entry in LIST)
    assert ranked != LIST


def test_the_scale_has_the_highest_bleu() -> None:
    references = [(text,) for text in (b"a b c a b", b"b b a c", b"c c a b a b")]

    def bleu_of(scale: float) -> float:
        ranked = rank_by_gain(LIST, scale)
        best = [next(entry.words for entry in ranked if entry.sentence == sentence) for sentence in range(3)]
        return 100 * corpus_bleu(best, references)

    scale, found = tune_scale(LIST, references)
    assert found == pytest.approx(bleu_of(scale))
    assert found == pytest.approx(max(bleu_of(2.0**exponent) for exponent in range(-3, 9)))
