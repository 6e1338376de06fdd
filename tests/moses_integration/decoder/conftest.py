from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.moses_integration.decoder.small_system import TARGET_WORDS


@pytest.fixture(scope="session")
def neural_model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A neural language model of order 4 with random weights; its vocabulary has some of the target words."""
    return _random_model(tmp_path_factory.mktemp("neural-lm"))


@pytest.fixture(scope="session")
def joint_model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A joint model with a window of three source words; its vocabularies have some of the words."""
    return _random_model(tmp_path_factory.mktemp("joint-model"), [b"a", b"b", b"zz"])


def _random_model(folder: Path, source_words: Sequence[bytes] = ()) -> Path:
    import torch

    from phrasescore.model_folder import save_lm_description, save_weights
    from phrasescore.nn.architecture import NeuralLmConfig
    from phrasescore.nn.neural_lm import NeuralLanguageModel
    from phrasescore.vocabulary import Vocabulary

    torch.manual_seed(1)
    vocabulary = Vocabulary(TARGET_WORDS[:2])
    source = Vocabulary(source_words) if source_words else None
    config = NeuralLmConfig(order=4, window=1, embedding=3, first_hidden=5, second_hidden=4)
    network = NeuralLanguageModel(config, len(vocabulary), len(source) if source else 0)
    with torch.no_grad():
        for parameter in network.parameters():
            parameter.copy_(torch.randn_like(parameter))
    save_lm_description(folder, config, vocabulary, {}, source)
    save_weights(folder, network)
    return folder
