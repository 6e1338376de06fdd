"""The searches agree with exhaustive search, with each other, and with the scores of pairs."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
import torch

from phrasescore.beam_search import Decoding, Hypothesis, beam_search, draw_translations
from phrasescore.device import choose_device
from phrasescore.errors import UserError
from phrasescore.nn.encoder_decoder import EncoderDecoder
from phrasescore.phrases import Phrases
from phrasescore.search_config import SearchConfig
from phrasescore.vocabulary import END
from tests import family_reference
from tests.nn.family import config_of
from tests.nn.networks import SOURCES, WORDS, random_network, weights_of
from tests.search.exhaustive import all_translations

CPU = choose_device("cpu", "fp32")
FAMILY = ("tutorial", "Bahdanau", "Luong with input feeding", "unit lstm", "reversed")
LONGEST = 3
SENTENCES = [source for source in SOURCES if source] + [[4, 5, 6, 7, 8, 2, 3], [8]]


def network_of(name: str) -> EncoderDecoder:
    """Return a network whose predictions differ between sources."""
    network = random_network(config_of(name)).eval()
    with torch.no_grad():
        for name, parameter in network.named_parameters():
            parameter.mul_(0.05 if name == "softmax.words.bias" else 2.5)
    return network


def config(**changes: Any) -> SearchConfig:
    return SearchConfig(**{"max_ratio": 0.0, "max_extra": LONGEST, "length_penalty": 0, **changes})


def decode(networks: Sequence[EncoderDecoder], sources: Sequence[Sequence[int]], origin: str = "network") -> Decoding:
    return Decoding(networks, CPU, Phrases.from_lists(sources), origin)


@pytest.mark.parametrize("name", FAMILY)
@pytest.mark.parametrize("penalty", [0, 1, 1.8])
def test_a_beam_as_wide_as_the_search_space_is_exhaustive(name: str, penalty: float) -> None:
    network = network_of(name)
    search = config(beam=700, length_penalty=penalty)
    sources = SENTENCES[:3]
    for source, found in zip(sources, beam_search(decode([network], sources), search), strict=True):
        values = {}
        for words, log_prob, _ in all_translations(network, WORDS, source, LONGEST):
            values[words] = log_prob / (len(words) + 1) ** penalty
        assert len(found) == len(values) == sum(8**length for length in range(LONGEST + 1))
        assert {one.words for one in found} == set(values)
        assert [one.value for one in found] == pytest.approx(sorted(values.values(), reverse=True), abs=1e-4)
        assert found[0].words == max(values, key=lambda words: values[words])


def assert_same(one: Hypothesis, other: Hypothesis) -> None:
    assert one.words == other.words
    assert one.log_prob == pytest.approx(other.log_prob, abs=1e-5)
    assert one.value == pytest.approx(other.value, abs=1e-5)
    assert (one.attention_TL is None) == (other.attention_TL is None)
    if one.attention_TL is not None and other.attention_TL is not None:
        assert one.attention_TL.shape == other.attention_TL.shape
        assert np.abs(one.attention_TL - other.attention_TL).max() < 1e-5


@pytest.mark.parametrize("name", FAMILY)
def test_a_beam_of_one_takes_the_most_probable_word_at_each_step(name: str) -> None:
    network = network_of(name)
    longest = 6
    search = config(beam=1, max_extra=longest)
    for source, (found,) in zip(SENTENCES, beam_search(decode([network], SENTENCES), search), strict=True):
        log_probs, _ = family_reference.next_log_probs(
            weights_of(network), network.config, source, list(found.words), END
        )
        best = [int(np.argmax(log_p)) for log_p in log_probs]
        said = [*found.words, END]
        assert said[:longest] == best[:longest]
        assert found.log_prob == pytest.approx(sum(p[word] for p, word in zip(log_probs, said, strict=True)), abs=1e-4)


@pytest.mark.parametrize("name", FAMILY)
def test_translations_do_not_depend_on_the_batch(name: str) -> None:
    network = network_of(name)
    for beam in (1, 2, 5):
        search = SearchConfig(beam=beam, n_best=beam, max_ratio=1.0, max_extra=4)
        together = beam_search(decode([network], SENTENCES), search)
        for source, found in zip(SENTENCES, together, strict=True):
            alone = beam_search(decode([network], [source]), search)[0]
            assert len(alone) == len(found) > 0
            for one, other in zip(alone, found, strict=True):
                assert_same(one, other)


def test_the_maximum_length_depends_on_the_source() -> None:
    network = network_of("tutorial")
    with torch.no_grad():
        network.softmax.words.bias[END] = -50.0
    for beam in (1, 3):
        found = beam_search(decode([network], SENTENCES), SearchConfig(beam=beam, max_ratio=1.5, max_extra=1))
        assert [len(some[0].words) for some in found] == [int(1.5 * len(source)) + 1 for source in SENTENCES]
    nothing = beam_search(decode([network], SENTENCES), config(beam=1, max_extra=0))
    assert [one.words for (one,) in nothing] == [()] * len(SENTENCES)
    assert SearchConfig(max_ratio=math.inf).longest(np.array([1, 3])).min() > 1_000_000


def test_an_ensemble_scores_by_the_mean() -> None:
    networks = [network_of("tutorial"), network_of("Bahdanau")]
    tables = [
        {words: p for words, p, _ in all_translations(network, WORDS, SENTENCES[0], LONGEST)} for network in networks
    ]
    mean = {words: (p + tables[1][words]) / 2 for words, p in tables[0].items()}
    found = beam_search(decode(networks, SENTENCES[:1]), config(beam=700))[0]
    assert [one.log_prob for one in found] == pytest.approx(sorted(mean.values(), reverse=True), abs=1e-4)
    assert found[0].attention_TL is None


@pytest.mark.parametrize("temperature", [1.0, 0.5])
def test_samples_are_as_frequent_as_they_are_probable(temperature: float) -> None:
    network, number = network_of("Luong with input feeding"), 20_000
    search = config(sample=True, n_best=number, temperature=temperature, max_extra=1)
    first = network.step(network.start(batch_of(SENTENCES[0])), None)[0][0].detach().double().numpy()
    expected = np.exp(first / temperature)
    expected /= expected.sum()
    drawn = draw_translations(decode([network], SENTENCES[:1]), search, [np.random.default_rng(1)])[0]
    assert sum(one.times for one in drawn) == number
    assert len({one.words for one in drawn}) == len(drawn)
    for one in drawn:
        word = one.words[0] if one.words else END
        p = float(expected[word])
        assert abs(one.times - number * p) < 5 * math.sqrt(number * p * (1 - p)) + 1
    scores = {words: p for words, p, _ in all_translations(network, WORDS, SENTENCES[0], 1)}
    for one in drawn:
        # The score does not depend on the temperature.
        assert one.log_prob == pytest.approx(scores[one.words], abs=1e-4)


def batch_of(source: list[int]) -> Any:
    from phrasescore.nn.batch import SourceBatch

    return SourceBatch.of(Phrases.from_lists([source]))


def test_samples_do_not_depend_on_the_batch() -> None:
    network = network_of("Bahdanau")
    search = SearchConfig(sample=True, n_best=5, max_extra=6, temperature=3.0)

    def drawn(sources: list[list[int]], seeds: list[int]) -> list[list[tuple[tuple[int, ...], int]]]:
        randoms = [np.random.default_rng(seed) for seed in seeds]
        found = draw_translations(decode([network], sources), search, randoms)
        return [[(one.words, one.times) for one in some] for some in found]

    together = drawn(SENTENCES, list(range(len(SENTENCES))))
    for seed, (source, found) in enumerate(zip(SENTENCES, together, strict=True)):
        assert drawn([source], [seed]) == [found]
    assert drawn([SENTENCES[0]], [99]) != [together[0]]


@pytest.mark.parametrize("number", [math.nan, math.inf, -math.inf])
@pytest.mark.parametrize("layer", ["softmax", "end"])
def test_a_network_that_gives_no_log_probabilities_is_an_error(number: float, layer: str) -> None:
    """A network that gives no log-probabilities is an error, even if only the end symbol is affected."""
    network = network_of("tutorial")
    with torch.no_grad():
        network.softmax.words.bias[END if layer == "end" else slice(None)] = number
    rejected = pytest.raises(UserError, match=r"^tiny: gives scores that are no log-probabilities; its weights are")
    search = config(beam=3, n_best=3)
    with rejected:
        beam_search(decode([network], SENTENCES, "tiny"), search)
    randoms = [np.random.default_rng(1) for _ in SENTENCES]
    with rejected:
        draw_translations(decode([network], SENTENCES, "tiny"), search, randoms)
