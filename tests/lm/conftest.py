"""A network with random weights and the n-gram model of the mini corpus."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from phrasescore.device import Device, choose_device
from phrasescore.lm.lm_scorer import NeuralLmScorer
from phrasescore.model_folder import TrainedLanguageModel
from phrasescore.nn.architecture import NeuralLmConfig
from phrasescore.nn.neural_lm import NeuralLanguageModel
from phrasescore.vocabulary import Vocabulary, count_words
from tests.conftest import MINI

ARPA = MINI / "lm.fr.arpa"


@pytest.fixture(scope="session")
def cpu() -> Device:
    return choose_device("cpu", "fp32")


@pytest.fixture(scope="session")
def make_scorer(cpu: Device) -> Callable[..., NeuralLmScorer]:
    """Make a scorer whose shortlist has some words of the n-gram model and one word that it lacks."""

    def make(*, words: int = 40, backoff: bool = True) -> NeuralLmScorer:
        frequent = Vocabulary.most_frequent(count_words(MINI / "train.fr"), words)
        vocabulary = Vocabulary([*frequent.known_words, b"nulle-part"])
        torch.manual_seed(1)
        config = NeuralLmConfig(order=4, embedding=8, first_hidden=12, second_hidden=10, initialisation="scaled")
        network = NeuralLanguageModel(config, len(vocabulary)).eval()
        torch.nn.init.normal_(network.softmax.words.weight)
        model = TrainedLanguageModel(network, vocabulary, folder=Path("random"))
        return NeuralLmScorer(model, cpu, ARPA if backoff else None)

    return make
