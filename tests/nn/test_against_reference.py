"""The networks equal an independent NumPy implementation of the paper's equations (tests/reference.py)."""

from __future__ import annotations

import itertools
from dataclasses import replace

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from phrasescore.nn.architecture import Biases, ModelConfig
from phrasescore.nn.batch import PairBatch
from phrasescore.nn.encoder_decoder import EncoderDecoder
from phrasescore.phrases import Phrases
from phrasescore.training.settings import Settings
from phrasescore.vocabulary import END
from tests.conftest import TINY
from tests.nn.networks import SOURCES, TARGETS, random_network, scores, shared, weights_of
from tests.reference import next_word_log_probs, pair_log_probs, parameter_count

RESETS = {"gru-paper": "before", "gru-appendix": "after"}


def reference_scores(network: EncoderDecoder) -> NDArray[np.float64]:
    weights = weights_of(network)
    config = network.config
    return np.array(
        [
            sum(
                pair_log_probs(
                    weights,
                    source,
                    target,
                    encoder_reset=RESETS[config.encoder_unit],
                    decoder_reset=RESETS[config.decoder_unit],
                    end=END,
                )
            )
            for source, target in zip(SOURCES, TARGETS, strict=True)
        ]
    )


VARIANTS: tuple[tuple[bool, Biases, int], ...] = ((True, "authors", 3), (False, "authors", 3), (True, "all", 0))
SHAPES = [
    replace(TINY, encoder_unit=encoder, decoder_unit=decoder, summary=summary, biases=biases, output_rank=rank)
    for encoder, decoder in itertools.product(RESETS, repeat=2)
    for summary, biases, rank in VARIANTS
]


@pytest.mark.parametrize("config", SHAPES)
@pytest.mark.usefixtures("double_precision")
def test_double_precision_equals_the_equations(config: ModelConfig) -> None:
    network = random_network(config)
    assert np.abs(scores(network, shared()) - reference_scores(network)).max() < 1e-9


@pytest.mark.parametrize("config", SHAPES)
def test_single_precision_equals_the_equations(config: ModelConfig) -> None:
    network = random_network(config)
    assert np.abs(scores(network, shared()) - reference_scores(network)).max() < 1e-4


def test_the_paper_s_preset_equals_the_equations() -> None:
    """The paper's preset equals the equations; tests/nn/test_family.py covers the other presets."""
    network = random_network(Settings.of("table", "cho2014", []).model)
    with torch.no_grad():
        for parameter in network.parameters():
            parameter.mul_(0.1)
    expected = reference_scores(network)
    assert np.abs(scores(network, shared()) - expected).max() < 1e-4
    assert np.abs(scores(network.double(), shared()) - expected).max() < 1e-9


@pytest.mark.usefixtures("double_precision")
def test_training_batches_equal_scoring_batches() -> None:
    network = random_network(TINY)
    order = sorted(range(len(TARGETS)), key=lambda pair: -len(TARGETS[pair]))
    apart = PairBatch.apart(
        Phrases.from_lists(SOURCES[pair] for pair in order), Phrases.from_lists(TARGETS[pair] for pair in order)
    )
    assert np.allclose(scores(network, apart), scores(network, shared())[order], atol=1e-12)


@pytest.mark.parametrize("config", SHAPES[:3])
@pytest.mark.usefixtures("double_precision")
def test_gradients_by_finite_differences(config: ModelConfig) -> None:
    network = random_network(replace(config, hidden=3, embedding=2, maxout=2, output_rank=2))
    names, parameters = zip(*network.named_parameters(), strict=True)
    batch = shared()

    def loss(*values: torch.Tensor) -> torch.Tensor:
        found: torch.Tensor = torch.func.functional_call(network, dict(zip(names, values, strict=True)), (batch,))
        weight = torch.linspace(0.5, 2.0, len(found))
        return (found * weight).sum()

    assert torch.autograd.gradcheck(loss, parameters, eps=1e-6, atol=1e-6, rtol=1e-5)


@pytest.mark.usefixtures("double_precision")
def test_probabilities_of_all_strings_sum_to_one() -> None:
    """Probabilities of all targets up to a length, plus that of longer ones, sum to one."""
    torch.manual_seed(5)
    words = 4
    network = EncoderDecoder(TINY, words, words)
    source, longest = [2, 3], 4
    others = [word for word in range(words) if word != END]
    targets = [list(t) for n in range(longest + 1) for t in itertools.product(others, repeat=n)]
    batch = PairBatch.sharing(
        Phrases.from_lists([source]), np.zeros(len(targets), np.int64), Phrases.from_lists(targets)
    )
    finished = np.exp(scores(network, batch)).sum()
    weights = weights_of(network)
    unfinished = 0.0
    for target, score in zip(targets, scores(network, batch), strict=True):
        if len(target) == longest:
            end = next_word_log_probs(weights, source, target, encoder_reset="before", decoder_reset="after", end=END)[
                END
            ]
            unfinished += float(np.exp(score - end) * (1 - np.exp(end)))
    assert finished < 1
    assert abs(finished + unfinished - 1) < 1e-9


@pytest.mark.parametrize(
    ("biases", "summary", "sizes", "expected"),
    [
        ("authors", False, {}, 17_269_501),
        ("authors", True, {}, 18_269_501),
        ("authors", True, {"embedding": 500, "maxout": 1000, "output_rank": 500}, 42_022_501),
        ("all", True, {}, 18_274_301),
    ],
)
def test_parameter_counts(biases: Biases, summary: bool, sizes: dict[str, int], expected: int) -> None:
    config = ModelConfig(biases=biases, summary=summary, **sizes)  # type: ignore[arg-type]
    with torch.device("meta"):
        network = EncoderDecoder(config, 15_001, 15_001)
    count = sum(parameter.numel() for parameter in network.parameters())
    formula = parameter_count(
        15_001,
        15_001,
        embedding=config.embedding,
        hidden=config.hidden,
        maxout=config.maxout,
        rank=config.output_rank,
        biases=biases,
        summary=summary,
    )
    assert count == formula == expected
