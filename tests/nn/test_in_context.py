"""Networks in context equal their equations (tests/family_reference.py), for every way to compute them."""

from __future__ import annotations

from itertools import chain

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from phrasescore.aligned_phrases import LONGEST
from phrasescore.nn.batch import PairBatch
from phrasescore.nn.encoder import SpanMarks
from phrasescore.nn.encoder_decoder import EncoderDecoder
from phrasescore.phrases import Phrases, PhrasesInSentences
from phrasescore.vocabulary import END
from tests import family_reference
from tests.nn.family import FAMILY, config_of
from tests.nn.networks import SOURCES, TARGETS, random_network, scores, shared, weights_of

SENTENCES = [[2, 3, 4, 5, 2, 3], [6], [0, 2, 3], list(range(2, 9)) * 2]
PLACES = [(0, 0, 2), (0, 0, 6), (0, 4, 6), (1, 0, 1), (2, 1, 3), (3, 2, 13), (3, 0, 14)]
"""Sentence, begin and end of a phrase; the last phrases are longer than `FARTHEST`."""
TARGETS_OF_PLACES: list[list[list[int]]] = [[[7, 3], [7]], [[]], [[7, 3]], [[2, 2, 2]], [[0, 8], [0]], [[5]], [[4, 4]]]
IN_CONTEXT = [
    *(name for name in FAMILY if name != "reversed"),
    "Luong",
    "dot before",
    "input feeding, halves",
    "transformer encoder",
]


def placed(places: list[tuple[int, int, int]]) -> PhrasesInSentences:
    sentence_S, first_S, end_S = np.array(places).T
    return PhrasesInSentences(Phrases.from_lists(SENTENCES), sentence_S, first_S, end_S)


def sharing() -> PairBatch:
    """Return all pairs as a scoring batch."""
    place_P = np.repeat(np.arange(len(PLACES)), [len(targets) for targets in TARGETS_OF_PLACES])
    return PairBatch.sharing(placed(PLACES), place_P, Phrases.from_lists(chain.from_iterable(TARGETS_OF_PLACES)))


def apart() -> tuple[PairBatch, NDArray[np.int64]]:
    """Return all pairs as a training batch, and their order."""
    pairs = [(place, target) for place, some in zip(PLACES, TARGETS_OF_PLACES, strict=True) for target in some]
    order = np.array(sorted(range(len(pairs)), key=lambda pair: -len(pairs[pair][1])))
    places, targets = [pairs[pair][0] for pair in order], [pairs[pair][1] for pair in order]
    return PairBatch.apart(placed(places), Phrases.from_lists(targets)), order


def network_of(name: str) -> EncoderDecoder:
    return random_network(config_of(name, in_context=True)).eval()


def expected(network: EncoderDecoder) -> NDArray[np.float64]:
    weights = weights_of(network)
    return np.array(
        [
            family_reference.pair_log_prob(weights, network.config, SENTENCES[sentence], target, END, (begin, end))
            for (sentence, begin, end), targets in zip(PLACES, TARGETS_OF_PLACES, strict=True)
            for target in targets
        ]
    )


@pytest.mark.parametrize("name", IN_CONTEXT)
@pytest.mark.usefixtures("double_precision")
def test_scores_equal_the_equations(name: str) -> None:
    network = network_of(name)
    found = expected(network)
    assert np.abs(scores(network, sharing()) - found).max() < 1e-9
    batch, order = apart()
    assert np.abs(scores(network, batch) - found[order]).max() < 1e-9


def test_no_untrained_position_embedding_is_used() -> None:
    """Training has phrases of at most seven words; some of these are longer."""
    network = network_of("Luong")
    longest = max(end - first for _, first, end in PLACES)
    assert longest > LONGEST == 7
    marks = [module for module in network.modules() if isinstance(module, SpanMarks)]
    vectors = [one for mark in marks for one in mark.modules() if isinstance(one, torch.nn.Embedding)]
    assert vectors
    for one in vectors:
        one.weight.data[LONGEST + 1 :] = torch.nan
    assert np.isfinite(scores(network, sharing())).all()


@pytest.mark.parametrize("name", IN_CONTEXT)
@pytest.mark.usefixtures("double_precision")
def test_a_sentence_that_consists_of_the_phrase_equals_the_phrase_alone(name: str) -> None:
    network = network_of(name)
    count = len(SOURCES)
    whole = PhrasesInSentences(
        Phrases.from_lists(SOURCES), np.arange(count), np.zeros(count, np.int64), np.array([len(s) for s in SOURCES])
    )
    batch = PairBatch.sharing(whole, np.arange(count), Phrases.from_lists(TARGETS))
    assert np.abs(scores(network, batch) - scores(network, shared())).max() < 1e-9


def test_a_sentence_is_encoded_once_for_all_its_pairs() -> None:
    """A sentence is encoded once, not once for each pair or occurrence."""
    symbols = sum(len(sentence) + 1 for sentence in SENTENCES)
    of_pairs = sum(len(SENTENCES[sentence]) + 1 for sentence, _, _ in PLACES)
    assert of_pairs > 2 * symbols
    for batch in (apart()[0], sharing()):
        for backward in (False, True):
            # Levels of the tree have a little padding.
            assert len(batch.sources.reading(backward=backward).tree.words_N) < 1.2 * symbols


def test_scores_do_not_depend_on_the_batch() -> None:
    network = network_of("Luong")
    together = scores(network, sharing())
    alone = [
        scores(network, PairBatch.sharing(placed([place]), np.array([0]), Phrases.from_lists([target])))[0]
        for place, targets in zip(PLACES, TARGETS_OF_PLACES, strict=True)
        for target in targets
    ]
    assert np.abs(together - alone).max() < 1e-4


@pytest.mark.usefixtures("double_precision")
def test_gradients_do_not_depend_on_the_batch() -> None:
    found = []
    for batch in (sharing(), apart()[0]):
        network = network_of("Luong")
        network.pair_scores(batch).sum().backward()  # type: ignore[no-untyped-call]
        found.append({name: weight.grad for name, weight in network.named_parameters() if weight.grad is not None})
    assert found[0].keys() == found[1].keys() == dict(network.named_parameters()).keys()
    for name, gradient in found[0].items():
        torch.testing.assert_close(gradient, found[1][name], rtol=1e-9, atol=1e-12)


@pytest.mark.usefixtures("double_precision")
def test_scores_depend_on_the_context() -> None:
    network = network_of("Bahdanau")

    def score(sentence: list[int], begin: int, end: int) -> float:
        place = PhrasesInSentences(Phrases.from_lists([sentence]), np.array([0]), np.array([begin]), np.array([end]))
        return float(scores(network, PairBatch.sharing(place, np.array([0]), Phrases.from_lists([[3]])))[0])

    in_its_place = score([2, 3, 4, 6], 1, 2)
    assert abs(in_its_place - score([5, 3, 4, 6], 1, 2)) > 1e-6
    assert abs(in_its_place - score([2, 3, 4, 7], 1, 2)) > 1e-6
    # The same context with another phrase.
    assert abs(in_its_place - score([2, 3, 4, 6], 0, 2)) > 1e-6
