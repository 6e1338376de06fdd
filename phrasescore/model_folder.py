"""A trained network as a folder: configuration, weights, vocabularies. No pickle, nothing executable.

config.json            kind, architecture, direction, sizes, all settings, where the data was and its digests, versions,
                       plugins, hashes of the vocabularies; of a resumed run as it was resumed last
weights.safetensors    the weights with the lowest loss on the validation table, or on held-out pairs
vocab.source.txt       words of the network's input, one a line, the line number is the id
vocab.target.txt       words of its output
metrics.jsonl          one record an evaluation
training-state/        for resuming only
"""

from __future__ import annotations

import hashlib
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, get_args

import torch
from safetensors import SafetensorError
from safetensors.torch import load, save
from torch import nn

from phrasescore import __version__
from phrasescore.documents import read_json
from phrasescore.errors import UserError
from phrasescore.files import STANDARD_STREAM, read_regular, write_atomically, write_json
from phrasescore.nn.config import ModelConfig, read_model_config
from phrasescore.nn.encoder_decoder import EncoderDecoder
from phrasescore.pairs import Direction
from phrasescore.plugins import check_plugins, loaded_plugins
from phrasescore.registry import NotRegisteredError
from phrasescore.vocabulary import Vocabulary

FORMAT = 1
KIND = "encoder-decoder"
CONFIG, WEIGHTS = "config.json", "weights.safetensors"
SOURCE_VOCABULARY, TARGET_VOCABULARY = "vocab.source.txt", "vocab.target.txt"
_HEADER = 1 << 20
"""Bytes that names and shapes in a file of weights take at most."""
_COPY = "copy the model folder again"
METRICS, TRAINING_STATE = "metrics.jsonl", "training-state"


@dataclass(frozen=True)
class TrainedModel:
    """A network with the vocabularies it was trained with."""

    folder: Path
    """Where it was read from."""
    network: EncoderDecoder
    source_vocabulary: Vocabulary
    target_vocabulary: Vocabulary
    direction: Direction
    weights_digest: str
    """SHA-256 of the weights file: the provenance of every score."""

    @property
    def vocabulary_digests(self) -> tuple[str, str]:
        """SHA-256 of the source and of the target words."""
        return self.source_vocabulary.digest(), self.target_vocabulary.digest()


def save_description(
    folder: Path,
    config: ModelConfig,
    direction: Direction,
    source: Vocabulary,
    target: Vocabulary,
    sections: dict[str, Any],
) -> None:
    """Write everything but the weights; the folder must exist.

    `sections` say what the network was trained on and how.
    """
    source.save(folder / SOURCE_VOCABULARY)
    target.save(folder / TARGET_VOCABULARY)
    facts = {
        "model": asdict(config),
        "direction": direction,
        "source_vocabulary": describe_vocabulary(source),
        "target_vocabulary": describe_vocabulary(target),
        **sections,
    }
    write_description(folder, KIND, facts)


def describe_vocabulary(vocabulary: Vocabulary) -> dict[str, Any]:
    """Return what a description says of a vocabulary."""
    return {"words": len(vocabulary), "sha256": vocabulary.digest()}


def write_description(folder: Path, kind: str, facts: dict[str, Any]) -> None:
    """Write config.json for a network of some kind."""
    versions = {"phrasescore": __version__, "torch": torch.__version__}
    plugins = [{"path": path, "sha256": digest} for path, digest in loaded_plugins().items()]
    if plugins:
        facts = {**facts, "plugins": plugins}
    write_json(folder / CONFIG, {"format": FORMAT, "kind": kind, **facts, "versions": versions})


def save_weights(folder: Path, network: nn.Module) -> None:
    """Write the weights, whole or not at all."""
    write_atomically(folder / WEIGHTS, save(dict(network.state_dict())))


def load_model(folder: Path) -> TrainedModel:
    """Read a model folder onto the CPU.

    Raises:
        UserError: a file is missing, damaged, of another format or kind, or does not belong to the others; or a plugin
            is missing, or not as it was.
    """
    description = read_description(folder, KIND, {"model", "direction", "source_vocabulary", "target_vocabulary"})
    source = load_vocabulary(folder / SOURCE_VOCABULARY, description["source_vocabulary"])
    target = load_vocabulary(folder / TARGET_VOCABULARY, description["target_vocabulary"])
    config = read_model_config(description["model"], str(folder / CONFIG))
    plugins = description.get("plugins", [])
    check_plugins(folder, plugins)
    try:
        network = EncoderDecoder(config, len(source), len(target))
    except UserError as error:
        if not plugins or not isinstance(error, NotRegisteredError):
            raise UserError(f"{folder / CONFIG}: {error}") from error
        options = " ".join(f"--plugin {plugin['path']}" for plugin in plugins)
        problem = str(error).split(";")[0]
        raise UserError(f"{folder}: {problem}; it was trained with a plugin, give {options} here too") from error
    digest = read_weights(folder, network)
    return TrainedModel(folder, network.eval(), source, target, description["direction"], digest)


def network_kind(folder: Path) -> str:
    """Return what kind of network a folder holds.

    Raises:
        UserError: it is no model folder, or damaged.
    """
    if not (folder / CONFIG).exists():
        raise UserError(f"{folder}: is not a model folder (no {CONFIG}); give the folder that `train -o` wrote")
    # The first folders had one kind and did not name it.
    return str(read_json(folder / CONFIG, _COPY).get("kind", KIND))


def read_description(folder: Path, kind: str, keys: set[str]) -> dict[str, Any]:
    """Return config.json of a folder with a network of some kind; it has these keys.

    Raises:
        UserError: it is missing, damaged, of another format or of another kind.
    """
    if (found := network_kind(folder)) != kind:
        raise UserError(f"{folder}: holds a network of the kind {found}; give the folder of one of the kind {kind}")
    description = read_json(folder / CONFIG, _COPY)
    # Another format may say other things.
    if description.get("format", FORMAT) != FORMAT:
        raise UserError(
            f"{folder / CONFIG}: has format {description['format']!r}, this version reads {FORMAT}; "
            "train again or use the version that wrote it"
        )
    if not _describes(description, keys):
        raise UserError(f"{folder / CONFIG}: does not describe a network; copy the model folder again")
    return description


def _describes(description: dict[str, Any], keys: set[str]) -> bool:
    """Whether a description has these keys and says of vocabularies, plugins and the direction what is read of them."""
    vocabularies = [description.get(key) for key in keys if key.endswith("vocabulary")]
    plugins, training = description.get("plugins", []), description.get("training", {})
    return (
        {"format", *keys} <= description.keys()
        and all(_has_texts(one, {"sha256"}) for one in vocabularies)
        and isinstance(description.get("model", {}), dict)
        and isinstance(training, dict)
        and isinstance(training.get("table", ""), str)
        and isinstance(plugins, list)
        and all(_has_texts(one, {"path", "sha256"}) for one in plugins)
        and ("direction" not in keys or description["direction"] in get_args(Direction))
    )


def _has_texts(value: object, keys: set[str]) -> bool:
    return isinstance(value, dict) and all(isinstance(value.get(key), str) for key in keys)


def training_table(folder: Path) -> Path | None:
    """Return the phrase table that a network was trained on, as it was named then; None if it has learnt from others.

    Raises:
        UserError: see `read_description`.
    """
    name = read_description(folder, KIND, set()).get("training", {}).get("table", STANDARD_STREAM)
    return None if name == STANDARD_STREAM else Path(name)


def read_weights(folder: Path, network: nn.Module) -> str:
    """Fill a network with the weights of its folder; return the SHA-256 of their file.

    Raises:
        UserError: there are none, or see `load_weights`.
    """
    if not (folder / WEIGHTS).exists():
        # Training makes an empty one before its first update.
        if (folder / METRICS).exists() and (folder / METRICS).stat().st_size:
            raise UserError(f"{folder}: has lost its {WEIGHTS}; copy the model folder again or train again")
        raise UserError(f"{folder}: has no {WEIGHTS} yet; let `train` reach its first evaluation")
    # Twice the bytes: they may have been stored as wider numbers.
    largest = _HEADER + 2 * sum(tensor.nbytes for tensor in network.state_dict().values())
    content = read_regular(folder / WEIGHTS, largest)
    load_weights(network, content, folder / WEIGHTS)
    return hashlib.sha256(content).hexdigest()


def load_weights(network: nn.Module, content: bytes, path: Path) -> None:
    """Fill a network from the bytes of a safetensors file.

    Raises:
        UserError: the bytes are damaged, of another architecture, or hold numbers that are not finite.
    """
    advice = "copy the model folder again or train again"
    try:
        weights = load(content)
        network.load_state_dict(weights)
    except (SafetensorError, RuntimeError) as error:
        raise UserError(f"{path}: does not hold the weights that {CONFIG} describes; {advice}") from error
    for name, tensor in weights.items():
        if not bool(torch.isfinite(tensor).all()):
            raise UserError(f"{path}: weight {name} holds a number that is not finite; {advice}")


def load_vocabulary(path: Path, described: dict[str, Any]) -> Vocabulary:
    """Read a vocabulary and compare it with what the description says of it.

    Raises:
        UserError: it is missing, damaged or another one.
    """
    vocabulary = Vocabulary.load(path)
    if vocabulary.digest() != described["sha256"]:
        raise UserError(f"{path}: is not the vocabulary the network was trained with; copy the model folder again")
    return vocabulary
