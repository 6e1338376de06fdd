"""The mini system with a neural language model."""

from __future__ import annotations

from pathlib import Path

from moses_integration.ini import MosesIni, add_feature
from phrasescore.model_folder import save_lm_description, save_weights
from phrasescore.nn.architecture import NeuralLmConfig
from phrasescore.nn.neural_lm import NeuralLanguageModel
from phrasescore.vocabulary import Vocabulary, count_words
from tests.conftest import MINI


def mini_system(folder: Path) -> Path:
    """Return an ini of the mini system with a random network."""
    vocabulary = Vocabulary.most_frequent(count_words(MINI / "train.fr"), 40)
    config = NeuralLmConfig(order=3, embedding=3, first_hidden=4, second_hidden=4)
    network = NeuralLanguageModel(config, len(vocabulary))
    (folder / "cslm").mkdir()
    save_lm_description(folder / "cslm", config, vocabulary, {})
    save_weights(folder / "cslm", network)
    ini = MosesIni.read(MINI / "moses.tuned.ini").with_absolute_paths()
    arguments = {"path": folder / "cslm", "backoff": MINI / "lm.fr.arpa"}
    add_feature(ini, "CSLM", "CSLM0", arguments, [0.1])
    ini.write(folder / "moses.ini")
    return folder / "moses.ini"
