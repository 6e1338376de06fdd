from __future__ import annotations

import numpy as np
import pytest

from phrasescore.analysis.vectors import nearest, phrase_vectors, unit_length
from phrasescore.scoring.encoder_decoder import EncoderDecoderScorer
from phrasescore.vocabulary import END
from tests.conftest import Weights
from tests.reference import summarise

PHRASES = [b"the black house", b"black the house", b"a car", b"the black", b"nonsense car"]


def test_phrase_vectors_are_the_summaries_of_the_equations(scorer: EncoderDecoderScorer, weights: Weights) -> None:
    ids = [scorer.model.source_vocabulary.encode([phrase]).ids.tolist() for phrase in PHRASES]
    expected = [summarise(weights, words, reset="before", end=END) for words in ids]
    assert phrase_vectors(scorer, PHRASES) == pytest.approx(np.array(expected), abs=1e-5)


def test_nearest_by_cosine_not_by_length() -> None:
    vectors = np.array([[10, 10], [0.1, 0], [0, 1], [-1, 0]], np.float32)
    found = nearest(np.array([2, 0], np.float32), vectors, 3)
    assert [index for index, _ in found] == [1, 0, 2]
    assert [cosine for _, cosine in found] == pytest.approx([1, 0.5**0.5, 0])


def test_a_zero_vector_stays_zero() -> None:
    assert unit_length(np.array([[0, 0], [3, 4]], np.float32)).tolist() == [[0, 0], pytest.approx([0.6, 0.8])]
