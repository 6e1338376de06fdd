"""A trained neural language model as a folder.

config.json            kind, architecture, all settings, path and digest of the text, versions, plugins, hash of the
                       vocabulary
weights.safetensors    the weights with the lowest loss on the validation text, or on held-out sentences, with digests
vocab.txt              the shortlist, one word per line; the line number is the id
metrics.jsonl          one record per evaluation
training-state/        for resuming only
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from phrasescore.configuration import check_values
from phrasescore.model_files import CONFIG, VOCABULARY
from phrasescore.model_folder import (
    Trained,
    describe_vocabulary,
    load_vocabulary,
    network_file,
    open_weights,
    read_description,
    write_description,
)
from phrasescore.nn.architecture import NeuralLmConfig
from phrasescore.nn.neural_lm import NeuralLanguageModel
from phrasescore.vocabulary import Vocabulary

KIND = "neural-language-model"


@dataclass(frozen=True)
class TrainedLanguageModel(Trained):
    """A network with its shortlist."""

    network: NeuralLanguageModel
    vocabulary: Vocabulary


def save_description(folder: Path, config: NeuralLmConfig, vocabulary: Vocabulary, sections: dict[str, Any]) -> None:
    """Write everything but the weights to an existing folder; `sections` describe the training and its data."""
    vocabulary.save(folder / VOCABULARY)
    facts = {"model": asdict(config), "vocabulary": describe_vocabulary(vocabulary), **sections}
    write_description(folder, KIND, facts)


def load_language_model(folder: Path) -> TrainedLanguageModel:
    """Load a model folder onto the CPU.

    Raises:
        UserError: a file is missing, damaged, of another format or kind, or does not match the others.
    """
    description = read_description(folder, KIND, {"model", "vocabulary"})
    with open_weights(folder, description) as weights:
        vocabulary = load_vocabulary(network_file(folder, VOCABULARY), description["vocabulary"])
        values = check_values(NeuralLmConfig, description["model"], str(network_file(folder, CONFIG)))
        network = weights.fill(lambda: NeuralLanguageModel(NeuralLmConfig(**values), len(vocabulary)))
        return TrainedLanguageModel(
            network, vocabulary, folder=folder, weights_digest=weights.sha256, is_checked=weights.are_checked
        )
