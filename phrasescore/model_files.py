"""The files of a model folder, its description config.json, and checks of its scores; without importing PyTorch.

config.json            kind, architecture, direction, sizes, all settings, paths and digests of the data, versions,
                       plugins, hashes of the vocabularies; updated whenever a run is resumed
weights.safetensors    the weights with the lowest loss on the validation data, or on held-out data, with a digest of
                       the file and one of the network's description in config.json
vocab.source.txt       words of the network's input, one per line; the line number is the id
vocab.target.txt       words of the network's output
subwords.model         in place of both, a joint subword vocabulary, a model of SentencePiece
vocab.txt              in place of both, the shortlist of a language model; a joint model has vocab.source.txt, too
metrics.jsonl          one record per evaluation
training-state/        for resuming only
"""

from __future__ import annotations

import hashlib
import json
import platform
from collections.abc import Iterable
from contextlib import suppress
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from phrasescore import __version__
from phrasescore.errors import UserError
from phrasescore.files import STANDARD_STREAM, sha256_of, write_json
from phrasescore.files.documents import read_json
from phrasescore.plugins import loaded_plugins
from phrasescore.subwords import SubwordVocabulary
from phrasescore.vocabulary import Vocabulary

CONFIG, WEIGHTS = "config.json", "weights.safetensors"
SUBWORDS = "subwords.model"
SOURCE_VOCABULARY, TARGET_VOCABULARY, VOCABULARY = "vocab.source.txt", "vocab.target.txt", "vocab.txt"
METRICS, TRAINING_STATE, CHECKPOINT = "metrics.jsonl", "training-state", "checkpoint.safetensors"
ENCODER_DECODER, LANGUAGE_MODEL = "encoder-decoder", "neural-language-model"
FORMAT = 1
COPY_AGAIN = "copy the model folder again"
_SCORING = ("kind", "model", "direction", "source_vocabulary", "target_vocabulary", "vocabulary", "factors")
"""The parts of a description that determine the scores. Plugins have their own digests, because users may fix them."""


def files_of_models(folders: Iterable[str | Path]) -> list[Path]:
    """Return the paths of files that model folders may have, which no output may replace."""
    names = (CONFIG, WEIGHTS, SOURCE_VOCABULARY, TARGET_VOCABULARY, SUBWORDS, VOCABULARY, METRICS)
    return [Path(folder) / name for folder in folders for name in names]


def write_description(folder: Path, kind: str, facts: dict[str, Any]) -> None:
    """Write config.json for a network of a given kind."""
    plugins = [{"path": path, "sha256": digest} for path, digest in loaded_plugins().items()]
    if plugins:
        facts = {**facts, "plugins": plugins}
    write_json(folder / CONFIG, {"format": FORMAT, "kind": kind, **facts, "versions": versions()})


def describe_vocabulary(vocabulary: Vocabulary) -> dict[str, Any]:
    """Return the description of a vocabulary."""
    facts = {"words": len(vocabulary), "sha256": vocabulary.digest()}
    return facts | ({"subwords": True} if isinstance(vocabulary, SubwordVocabulary) else {})


def save_vocabulary(folder: Path, name: str, vocabulary: Vocabulary) -> None:
    """Write a vocabulary under its name, or joint subwords under theirs."""
    vocabulary.save(folder / (SUBWORDS if isinstance(vocabulary, SubwordVocabulary) else name))


def model_kind(folder: Path) -> str:
    """Return the kind of network in a folder."""
    return str(_read(folder).get("kind"))


def read_description(folder: Path, kind: str) -> dict[str, Any]:
    """Read config.json of a network of a given kind; the digest of the weights validates it (`scoring_digest`)."""
    description, path = _read(folder), folder / CONFIG
    if (found := description.get("kind")) != kind:
        raise UserError(f"{folder}: holds a network of the kind {found}; give the folder of one of the kind {kind}")
    if description.get("format") != FORMAT:
        raise UserError(
            f"{path}: has format {description.get('format')!r}, this version reads {FORMAT}; "
            "train again or use the version that wrote it"
        )
    plugins = description.get("plugins", [])
    if not isinstance(plugins, list) or not all(
        isinstance(plugin, dict) and all(isinstance(plugin.get(key), str) for key in ("path", "sha256"))
        for plugin in plugins
    ):
        raise UserError(f"{path}: does not describe a network; {COPY_AGAIN}")
    return description


def _read(folder: Path) -> dict[str, Any]:
    path = folder / CONFIG
    if not path.exists():
        raise UserError(f"{folder}: is not a model folder (no {CONFIG}); give the folder that `train -o` wrote")
    return read_json(path, COPY_AGAIN)


def scoring_digest(description: dict[str, Any]) -> str:
    """Return the SHA-256 of the parts of a description that determine the scores."""
    scoring = {key: description[key] for key in _SCORING if key in description}
    return hashlib.sha256(json.dumps(scoring, sort_keys=True).encode()).hexdigest()


def load_vocabulary(folder: Path, name: str, described: dict[str, Any]) -> Vocabulary:
    """Read a vocabulary and compare it with its description."""
    path = folder / (SUBWORDS if described.get("subwords") else name)
    vocabulary = (SubwordVocabulary if described.get("subwords") else Vocabulary).load(path)
    if vocabulary.digest() != described["sha256"]:
        raise UserError(f"{path}: is not the vocabulary the network was trained with; {COPY_AGAIN}")
    return vocabulary


def described(path: str | Path) -> dict[str, str | None]:
    """Return path and SHA-256 of a file, of a model folder that of its weights; None for what cannot be read twice."""
    file = Path(path) / WEIGHTS if Path(path).is_dir() else Path(path)
    is_file = file.is_file() and str(path) != STANDARD_STREAM
    return {"path": str(path), "sha256": sha256_of(file) if is_file else None}


_LIBRARIES = ("torch", "numpy", "scipy", "sacrebleu", "sacremoses", "sil-thot", "ufal.kenlm", "scikit-learn")
_WITH_IT = ("moses_integration",)
_CODE = (".py", ".toml")


@cache
def code_version(*others: str) -> str:
    """Return the version with a hash of the code, of `others` too, which differs between commits of one version.

    The hash includes presets and configurations.
    """
    root = Path(__file__).parents[1]
    found = (path for name in ("phrasescore", *_WITH_IT, *others) for path in sorted((root / name).rglob("*")))
    content = b"".join(path.read_bytes() for path in found if path.suffix in _CODE)
    return f"{__version__} (code {hashlib.sha256(content).hexdigest()[:12]})"


def versions() -> dict[str, str]:
    """Return the versions of phrasescore, Python, and the installed libraries."""
    found = {"phrasescore": code_version(), "python": platform.python_version()}
    for library in _LIBRARIES:
        with suppress(PackageNotFoundError):
            found[library] = version(library)
    return found


# Outputs, validated where they reach the CPU; later code relies on it


_ROUNDING = 0.01
"""Tolerance in nats by which ln p of one symbol may exceed 0: the rounding error of 16-bit products with logits near
1,000, which no trained network reaches."""


def require_log_probs(values: NDArray[np.floating], origin: Path | str, symbols: NDArray[np.integer] | int = 1) -> None:
    """Validate log-probabilities of `symbols` symbols each that a network returns; `origin` is its folder."""
    if not ((values > -np.inf) & (values <= _ROUNDING * symbols)).all():
        raise UserError(
            f"{origin}: gives scores that are no log-probabilities; its weights are damaged, copy the model folder "
            "again or train again"
        )


def require_finite(values: NDArray[np.floating], origin: Path | str) -> None:
    """Validate outputs of a network that may have either sign, such as unnormalised scores and vectors."""
    if not np.isfinite(values).all():
        raise UserError(
            f"{origin}: computes numbers that are not finite; its weights are damaged, copy the model folder again or "
            "train again"
        )
