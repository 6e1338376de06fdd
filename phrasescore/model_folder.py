"""Trained networks as folders: configuration, weights, vocabularies. No pickle, nothing executable.

A folder may be untrusted: nothing in it is executed, no file that it names is opened, and its sizes are compared with
the size of the weights before memory is allocated. `model_files` lists the files.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal, TypeVar

import torch
from torch import Tensor, nn

from phrasescore.configuration import check_values
from phrasescore.errors import UserError, arg_name
from phrasescore.files.documents import read_json
from phrasescore.files.tensors import DamagedError, Shapes, TensorFile, open_tensors, write_tensors
from phrasescore.model_files import (
    CONFIG,
    COPY_AGAIN,
    ENCODER_DECODER,
    LANGUAGE_MODEL,
    METRICS,
    SOURCE_VOCABULARY,
    TARGET_VOCABULARY,
    VOCABULARY,
    WEIGHTS,
    describe_vocabulary,
    load_vocabulary,
    read_description,
    save_vocabulary,
    scoring_digest,
    write_description,
)
from phrasescore.nn.architecture import ModelConfig, NeuralLmConfig
from phrasescore.nn.encoder_decoder import EncoderDecoder
from phrasescore.nn.neural_lm import NeuralLanguageModel
from phrasescore.nn.weights import check_size
from phrasescore.pairs import Direction
from phrasescore.plugins import NotRegisteredError, check_plugins
from phrasescore.table.entry import Factors
from phrasescore.vocabulary import Vocabulary

_ADVICE = f"{COPY_AGAIN} or train again"

NetworkT = TypeVar("NetworkT", bound=nn.Module)


@dataclass(frozen=True, kw_only=True)
class ModelFolder:
    """A model with learned weights."""

    folder: Path = Path()
    weights_digest: str = ""
    """SHA-256 of the weights file: the provenance of every score."""


# Encoder-decoders


@dataclass(frozen=True)
class TrainedModel(ModelFolder):
    """A network with its vocabularies."""

    network: EncoderDecoder
    source_vocabulary: Vocabulary
    target_vocabulary: Vocabulary
    direction: Direction
    unit: Literal["phrase", "sentence"] = "phrase"
    factors: Factors | None = None
    """The factors of a table's words that form the words of the network; None if it was trained on plain text."""

    @property
    def vocabulary_digests(self) -> tuple[str, str]:
        return self.source_vocabulary.digest(), self.target_vocabulary.digest()


def save_description(
    folder: Path,
    config: ModelConfig,
    direction: Direction,
    source: Vocabulary,
    target: Vocabulary,
    sections: dict[str, Any],
    factors: Factors | None = None,
) -> None:
    """Write everything but the weights to an existing folder; `sections` describe the training and its data."""
    save_vocabulary(folder, SOURCE_VOCABULARY, source)
    save_vocabulary(folder, TARGET_VOCABULARY, target)
    facts = {
        "model": asdict(config),
        "direction": direction,
        "source_vocabulary": describe_vocabulary(source),
        "target_vocabulary": describe_vocabulary(target),
        **({} if factors is None else {"factors": list(factors.positions)}),
        **sections,
    }
    write_description(folder, ENCODER_DECODER, facts)


def load_model(folder: Path) -> TrainedModel:
    """Load a model folder onto the CPU; damaged or incompatible files, and missing or changed plugins, are errors."""
    description = read_description(folder, ENCODER_DECODER)
    with open_weights(folder, description) as weights:
        source = load_vocabulary(folder, SOURCE_VOCABULARY, description["source_vocabulary"])
        target = load_vocabulary(folder, TARGET_VOCABULARY, description["target_vocabulary"])
        config = ModelConfig(**check_values(ModelConfig, description["model"], str(folder / CONFIG)))
        plugins = description.get("plugins", [])
        check_plugins(folder, plugins)
        try:
            network = _load_network(folder, weights, lambda: EncoderDecoder(config, len(source), len(target)))
        except NotRegisteredError as error:
            if not plugins:
                raise UserError(f"{folder / CONFIG}: {error}") from error
            options = " ".join(arg_name("plugin", plugin["path"]) for plugin in plugins)
            problem = str(error).split(";")[0]
            raise UserError(f"{folder}: {problem}; it was trained with a plugin; add {options}") from error
        return TrainedModel(
            network,
            source,
            target,
            description["direction"],
            "sentence" if "sentences" in description and not config.in_context else "phrase",
            Factors.of(description["factors"]) if "factors" in description else None,
            folder=folder,
            weights_digest=weights.sha256,
        )


# Language models


@dataclass(frozen=True)
class TrainedLanguageModel(ModelFolder):
    """A network with its shortlist."""

    network: NeuralLanguageModel
    vocabulary: Vocabulary
    source_vocabulary: Vocabulary | None = None


def save_lm_description(
    folder: Path,
    config: NeuralLmConfig,
    vocabulary: Vocabulary,
    sections: dict[str, Any],
    source_vocabulary: Vocabulary | None = None,
) -> None:
    """Write everything but the weights to an existing folder; `sections` describe the training and its data."""
    vocabulary.save(folder / VOCABULARY)
    facts = {"model": asdict(config), "vocabulary": describe_vocabulary(vocabulary), **sections}
    if source_vocabulary is not None:
        source_vocabulary.save(folder / SOURCE_VOCABULARY)
        facts["source_vocabulary"] = describe_vocabulary(source_vocabulary)
    write_description(folder, LANGUAGE_MODEL, facts)


def load_language_model(folder: Path) -> TrainedLanguageModel:
    """Load a model folder onto the CPU."""
    description = read_description(folder, LANGUAGE_MODEL)
    with open_weights(folder, description) as weights:
        vocabulary, source = load_vocabulary(folder, VOCABULARY, description["vocabulary"]), None
        if "source_vocabulary" in description:
            source = load_vocabulary(folder, SOURCE_VOCABULARY, description["source_vocabulary"])
        config = NeuralLmConfig(**check_values(NeuralLmConfig, description["model"], str(folder / CONFIG)))
        sizes = len(vocabulary), 0 if source is None else len(source)
        network = _load_network(folder, weights, lambda: NeuralLanguageModel(config, *sizes))
        return TrainedLanguageModel(network, vocabulary, source, folder=folder, weights_digest=weights.sha256)


# Weights


def save_weights(folder: Path, network: nn.Module) -> None:
    """Write the weights of a network to its folder, atomically."""
    save_tensors(folder, network.state_dict())


def save_tensors(folder: Path, tensors: Mapping[str, Tensor]) -> None:
    """Write tensors as the weights of a model folder, atomically."""
    description = read_json(folder / CONFIG, COPY_AGAIN)
    write_tensors(folder / WEIGHTS, tensors, {"description": scoring_digest(description)})


@contextmanager
def open_weights(folder: Path, description: dict[str, Any]) -> Iterator[TensorFile]:
    """Open the weights of a folder and verify their digest and that of the description, the content of config.json."""
    path = folder / WEIGHTS
    if not path.exists():
        # Training creates an empty file before the first update.
        if (folder / METRICS).exists() and (folder / METRICS).stat().st_size:
            raise UserError(f"{folder}: has lost its {WEIGHTS}; {_ADVICE}")
        raise UserError(f"{folder}: has no {WEIGHTS} yet; let `train` reach its first evaluation")
    try:
        with open_tensors(path) as file:
            if file.facts.get("description") != scoring_digest(description):
                raise UserError(
                    f"{folder / CONFIG}: does not describe the network whose weights lie beside it; {_ADVICE}"
                )
            yield file
    except DamagedError as error:
        raise UserError(f"{path}: is damaged; {_ADVICE}") from error


def read_weights(folder: Path, weights: TensorFile, shapes: Shapes) -> dict[str, Tensor]:
    """Return the weights of a folder, whose names and shapes must be as given, and which must be finite."""
    path = folder / WEIGHTS
    if weights.shapes != shapes:
        raise UserError(f"{path}: does not hold the weights that {CONFIG} describes; {_ADVICE}")
    tensors = weights.read()
    for name, tensor in tensors.items():
        if not bool(torch.isfinite(tensor).all()):
            raise UserError(f"{path}: weight {name} holds a number that is not finite; {_ADVICE}")
    return tensors


def _load_network(folder: Path, weights: TensorFile, build: Callable[[], NetworkT]) -> NetworkT:
    """Build a network and load its weights, ready to score."""
    try:
        shapes = check_size(build)
    except NotRegisteredError:
        raise
    except UserError as error:
        raise UserError(f"{folder / CONFIG}: {error}") from error
    tensors = read_weights(folder, weights, shapes)
    network = build()
    network.load_state_dict(tensors)
    return network.eval()
