"""Small random networks, pairs, and their scores."""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray

from phrasescore.nn.architecture import ModelConfig
from phrasescore.nn.batch import PairBatch
from phrasescore.nn.encoder_decoder import EncoderDecoder
from phrasescore.phrases import Phrases
from tests.reference import Weights

WORDS = 9
SOURCES = [[2, 3, 4], [2, 3], [5], [6, 6, 6, 6, 2], [0]]
TARGETS = [[7, 3], [7], [], [2, 2, 2, 2, 2, 2], [0, 8]]


def random_network(config: ModelConfig) -> EncoderDecoder:
    """Return a network whose weights and biases are all far from zero."""
    torch.manual_seed(3)
    network = EncoderDecoder(config, WORDS, WORDS)
    with torch.no_grad():
        for parameter in network.parameters():
            parameter.copy_(torch.randn_like(parameter) * 0.4)
    return network


def shared(sources: list[list[int]] = SOURCES, targets: list[list[int]] = TARGETS) -> PairBatch:
    return PairBatch.sharing(Phrases.from_lists(sources), np.arange(len(sources)), Phrases.from_lists(targets))


def scores(network: EncoderDecoder, batch: PairBatch) -> NDArray[np.float64]:
    with torch.inference_mode():
        return network.pair_scores(batch).double().numpy()


def weights_of(network: EncoderDecoder) -> Weights:
    return {name: tensor.double().numpy() for name, tensor in network.state_dict().items()}
