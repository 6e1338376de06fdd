"""A trained network as a folder: configuration, weights, vocabularies. No pickle, nothing executable.

config.json            kind, architecture, direction, sizes, all settings, paths and digests of the data, versions,
                       plugins, hashes of the vocabularies; updated whenever a run is resumed
weights.safetensors    the weights with the lowest loss on the validation table, or on held-out pairs, with a digest of
                       the file and one of the network's description in config.json
vocab.source.txt       words of the network's input, one per line; the line number is the id
vocab.target.txt       words of the network's output
metrics.jsonl          one record per evaluation
training-state/        for resuming only
.replacement/          files of a new network that were not moved yet when the process was killed

A folder may be untrusted: nothing in it is executed, no file that it names is opened, and its sizes are compared with
the size of the weights before memory is allocated.
"""

from __future__ import annotations

import hashlib
import json
import logging
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Literal, TypeVar, get_args

import torch
from torch import Tensor, nn

from phrasescore.configuration import check_values
from phrasescore.errors import UserError
from phrasescore.files import write_json
from phrasescore.files.documents import read_json
from phrasescore.files.tensors import DamagedError, Shapes, TensorFile, open_tensors, write_tensors
from phrasescore.model_files import CONFIG, METRICS, SOURCE_VOCABULARY, TARGET_VOCABULARY, WEIGHTS
from phrasescore.nn.architecture import ModelConfig
from phrasescore.nn.encoder_decoder import EncoderDecoder
from phrasescore.nn.weights import check_size
from phrasescore.pairs import Direction
from phrasescore.plugins import check_plugins, loaded_plugins
from phrasescore.registry import NotRegisteredError
from phrasescore.table.factors import Factors
from phrasescore.versions import versions
from phrasescore.vocabulary import Vocabulary
from phrasescore.workers import Stored

FORMAT = 1
KIND = "encoder-decoder"
TRAINING_STATE = "training-state"
REPLACEMENT = ".replacement"
_SCORING = ("kind", "model", "direction", "source_vocabulary", "target_vocabulary", "vocabulary", "factors")
"""The parts of a description that determine the scores. Plugins have their own digests, because users may fix them."""
_COPY = "copy the model folder again"
_ADVICE = f"{_COPY} or train again"

TrainedT = TypeVar("TrainedT", bound="Trained")
NetworkT = TypeVar("NetworkT", bound=nn.Module)
_log = logging.getLogger(__name__)


@dataclass(frozen=True, kw_only=True)
class Trained:
    """A model with learned weights."""

    folder: Path = Path()
    """The folder it was loaded from."""
    weights_digest: str = ""
    """SHA-256 of the weights file: the provenance of every score."""
    is_checked: bool = False
    """Whether the weights have digests, which were verified."""

    @property
    def stored(self) -> Stored:
        """The folder, as input of `load_again`."""
        return Stored.at(self.folder, self.weights_digest)


def load_again(stored: Stored, load: Callable[[Path], TrainedT]) -> TrainedT:
    """Load a folder in a worker; messages use the name of the folder that the user gave.

    Raises:
        UserError: the folder is not accessible to the worker, or has changed.
    """
    found = load(stored.place)
    stored.require(found.weights_digest)
    return replace(found, folder=stored.name)


@dataclass(frozen=True)
class TrainedModel(Trained):
    """A network with its vocabularies."""

    network: EncoderDecoder
    source_vocabulary: Vocabulary
    target_vocabulary: Vocabulary
    direction: Direction
    unit: Literal["phrase", "sentence"] = "phrase"
    """The unit of the training data."""
    factors: Factors | None = None
    """The factors of a table's words that form the words of the network; None if it was trained on plain text."""

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
    factors: Factors | None = None,
) -> None:
    """Write everything but the weights to an existing folder.

    `sections` describe the training and its data; `factors` are those of a table that form the words of the network.
    """
    source.save(folder / SOURCE_VOCABULARY)
    target.save(folder / TARGET_VOCABULARY)
    facts = {
        "model": asdict(config),
        "direction": direction,
        "source_vocabulary": describe_vocabulary(source),
        "target_vocabulary": describe_vocabulary(target),
        **({} if factors is None else {"factors": list(factors.positions)}),
        **sections,
    }
    write_description(folder, KIND, facts)


def describe_vocabulary(vocabulary: Vocabulary) -> dict[str, Any]:
    """Return the description of a vocabulary."""
    return {"words": len(vocabulary), "sha256": vocabulary.digest()}


def write_description(folder: Path, kind: str, facts: dict[str, Any]) -> None:
    """Write config.json for a network of a given kind."""
    plugins = [{"path": path, "sha256": digest} for path, digest in loaded_plugins().items()]
    if plugins:
        facts = {**facts, "plugins": plugins}
    write_json(folder / CONFIG, {"format": FORMAT, "kind": kind, **facts, "versions": versions()})


def save_weights(folder: Path, network: nn.Module) -> None:
    """Write the weights of a network to its folder, atomically."""
    save_tensors(folder, network.state_dict())


def save_tensors(folder: Path, tensors: Mapping[str, Tensor]) -> None:
    """Write tensors as the weights of a model folder, atomically."""
    write_tensors(folder / WEIGHTS, tensors, {"description": _digest_of(read_json(folder / CONFIG, _COPY))})


def _digest_of(description: dict[str, Any]) -> str:
    """Return the SHA-256 of the parts of a description that determine the scores."""
    scoring = {key: description[key] for key in _SCORING if key in description}
    return hashlib.sha256(json.dumps(scoring, sort_keys=True).encode()).hexdigest()


def network_file(folder: Path, name: str) -> Path:
    """Return the path of a network file; after a killed replacement it may still be in the folder `.replacement`."""
    moving = folder / REPLACEMENT / name
    return moving if os.access(moving, os.F_OK) else folder / name


def load_model(folder: Path) -> TrainedModel:
    """Load a model folder onto the CPU.

    Raises:
        UserError: a file is missing, damaged, of another format or kind, or does not match the others; or a plugin is
            missing or has changed.
    """
    description = read_description(folder, KIND, {"model", "direction", "source_vocabulary", "target_vocabulary"})
    with open_weights(folder, description) as weights:
        source = load_vocabulary(network_file(folder, SOURCE_VOCABULARY), description["source_vocabulary"])
        target = load_vocabulary(network_file(folder, TARGET_VOCABULARY), description["target_vocabulary"])
        config = ModelConfig(**check_values(ModelConfig, description["model"], str(network_file(folder, CONFIG))))
        plugins = description.get("plugins", [])
        check_plugins(folder, plugins)
        try:
            network = weights.fill(lambda: EncoderDecoder(config, len(source), len(target)))
        except NotRegisteredError as error:
            if not plugins:
                raise UserError(f"{network_file(folder, CONFIG)}: {error}") from error
            options = " ".join(f"--plugin {plugin['path']}" for plugin in plugins)
            problem = str(error).split(";")[0]
            raise UserError(f"{folder}: {problem}; it was trained with a plugin, give {options} here too") from error
        return TrainedModel(
            network,
            source,
            target,
            description["direction"],
            "sentence" if "sentences" in description and not config.in_context else "phrase",
            Factors.of(description["factors"]) if "factors" in description else None,
            folder=folder,
            weights_digest=weights.sha256,
            is_checked=weights.are_checked,
        )


def model_kind(folder: Path) -> str:
    """Return the kind of network in a folder.

    Raises:
        UserError: it is not a model folder, or damaged.
    """
    path = network_file(folder, CONFIG)
    if not path.exists():
        raise UserError(f"{folder}: is not a model folder (no {CONFIG}); give the folder that `train -o` wrote")
    # The first model folders had a single kind, which they did not name.
    return str(read_json(path, _COPY).get("kind", KIND))


def read_description(folder: Path, kind: str, keys: set[str]) -> dict[str, Any]:
    """Read config.json of a network of a given kind, and check that it has the given keys.

    Raises:
        UserError: it is missing, damaged, of another format or of another kind.
    """
    if (found := model_kind(folder)) != kind:
        raise UserError(f"{folder}: holds a network of the kind {found}; give the folder of one of the kind {kind}")
    path = network_file(folder, CONFIG)
    description = read_json(path, _COPY)
    # The keys may differ in another format.
    if description.get("format", FORMAT) != FORMAT:
        raise UserError(
            f"{path}: has format {description['format']!r}, this version reads {FORMAT}; "
            "train again or use the version that wrote it"
        )
    if not _describes(description, keys):
        raise UserError(f"{path}: does not describe a network; {_COPY}")
    return description


def _describes(description: dict[str, Any], keys: set[str]) -> bool:
    """Return whether a description has the given keys, and valid vocabularies, plugins and direction."""
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
        and _are_factors(description.get("factors", [0]))
    )


def _are_factors(value: object) -> bool:
    try:
        Factors.of(value)
    except ValueError:
        return False
    return True


def _has_texts(value: object, keys: set[str]) -> bool:
    return isinstance(value, dict) and all(isinstance(value.get(key), str) for key in keys)


@dataclass(frozen=True)
class StoredWeights:
    """The weights of a folder, which are read on demand."""

    _folder: Path
    _file: TensorFile | None
    """None if there are no weights."""

    @property
    def sha256(self) -> str:
        """SHA-256 of the weights file."""
        return self._there.sha256

    @property
    def are_checked(self) -> bool:
        """Whether the weights have digests, which were verified."""
        return self._there.has_digest

    @property
    def _there(self) -> TensorFile:
        if self._file is None:
            # Training creates an empty file before the first update.
            if (self._folder / METRICS).exists() and (self._folder / METRICS).stat().st_size:
                raise UserError(f"{self._folder}: has lost its {WEIGHTS}; {_ADVICE}")
            raise UserError(f"{self._folder}: has no {WEIGHTS} yet; let `train` reach its first evaluation")
        return self._file

    def fill(self, build: Callable[[], NetworkT]) -> NetworkT:
        """Return a network with these weights, ready to score.

        Args:
            build: creates the network with arbitrary weights.

        Raises:
            NotRegisteredError: a component of the network does not exist, or belongs to a plugin.
            UserError: the network cannot be built or is too large, or the weights are missing, do not match it, or are
                not finite.
        """
        try:
            promised = check_size(build)
        except NotRegisteredError:
            raise
        except UserError as error:
            raise UserError(f"{network_file(self._folder, CONFIG)}: {error}") from error
        weights = self.read(promised)
        network = build()
        network.load_state_dict(weights)
        return network.eval()

    def read(self, promised: Shapes) -> dict[str, Tensor]:
        """Return the weights, checked against the expected names and shapes.

        Raises:
            UserError: the weights are missing, do not match, or are not finite.
        """
        if self._there.shapes != promised:
            raise self.misfit()
        weights = self._there.read()
        for name, tensor in weights.items():
            if not bool(torch.isfinite(tensor).all()):
                path = network_file(self._folder, WEIGHTS)
                raise UserError(f"{path}: weight {name} holds a number that is not finite; {_ADVICE}")
        return weights

    def misfit(self) -> UserError:
        """Return the error that the weights do not match config.json."""
        path = network_file(self._folder, WEIGHTS)
        return UserError(f"{path}: does not hold the weights that {CONFIG} describes; {_ADVICE}")


@contextmanager
def open_weights(folder: Path, description: dict[str, Any]) -> Iterator[StoredWeights]:
    """Open the weights of a folder, if it has any, and verify their digests; warn if they have no digest.

    Args:
        folder: the model folder.
        description: the content of its config.json.

    Raises:
        UserError: the weights are damaged, which may be detected only when they are read, or do not match config.json.
    """
    path = network_file(folder, WEIGHTS)
    if not path.exists():
        yield StoredWeights(folder, None)
        return
    try:
        with open_tensors(path) as file:
            if not file.has_digest:
                _log.warning(
                    "%s: carries no digest, as it is of an older version; what changes in it goes unnoticed", path
                )
            elif file.facts.get("description") != _digest_of(description):
                raise UserError(
                    f"{network_file(folder, CONFIG)}: does not describe the network whose weights lie beside it; "
                    f"{_ADVICE}"
                )
            yield StoredWeights(folder, file)
    except DamagedError as error:
        raise UserError(f"{path}: is damaged; {_ADVICE}") from error


def load_vocabulary(path: Path, described: dict[str, Any]) -> Vocabulary:
    """Read a vocabulary and compare it with its description.

    Raises:
        UserError: it is missing, damaged or another vocabulary.
    """
    vocabulary = Vocabulary.load(path)
    if vocabulary.digest() != described["sha256"]:
        raise UserError(f"{path}: is not the vocabulary the network was trained with; {_COPY}")
    return vocabulary
