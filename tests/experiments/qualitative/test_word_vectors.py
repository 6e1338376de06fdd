from __future__ import annotations

import pytest

from experiments.qualitative.word_vectors import bag_of_embeddings, output_word_vectors
from phrasescore.scoring.encoder_decoder import EncoderDecoderScorer
from tests.reference import Weights


def test_a_bag_knows_words_but_not_their_order(scorer: EncoderDecoderScorer, weights: Weights) -> None:
    bags = bag_of_embeddings(scorer, [b"the black house", b"black the house", b"a car"])
    assert bags[0] == pytest.approx(bags[1], abs=1e-6)
    words = weights["encoder.embedding.words.weight"] + weights["encoder.embedding.bias"]
    ids = scorer.model.source_vocabulary.encode([b"a car"]).ids
    assert bags[2] == pytest.approx(words[ids].sum(axis=0), abs=1e-5)


def test_output_words_are_the_most_frequent(scorer: EncoderDecoderScorer, weights: Weights) -> None:
    words, vectors = output_word_vectors(scorer, 3)
    assert tuple(words) == scorer.model.target_vocabulary.words[2:5]
    expected = weights["decoder.embedding.words.weight"][2:5] + weights["decoder.embedding.bias"]
    assert vectors == pytest.approx(expected, abs=1e-5)
    assert len(output_word_vectors(scorer, 10_000)[0]) == len(scorer.model.target_vocabulary) - 2
