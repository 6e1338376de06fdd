"""The phrase-pair model and its model folder; nothing in the folder is executable.

config.json            kind, version and number of the features, training options and data, versions
weights.safetensors    `keys`, the hashes of the features in rising order, and `weights`, 32-bit floats; with a digest
                       of the file and one of the description in config.json

    f(source, target) = sum of the weights of the features of the pair; an unknown feature has weight 0

f is a term of a log-linear score, so exp(f) is the column of a phrase table. `moses_integration/expected_bleu` trains
the model.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from phrasescore.errors import UserError
from phrasescore.expected_bleu.features import FAMILY, Bags, Keys
from phrasescore.model_files import CONFIG, WEIGHTS
from phrasescore.model_folder import (
    Trained,
    network_file,
    open_weights,
    read_description,
    save_tensors,
    write_description,
)
from phrasescore.pairs import Direction

KIND = "expected-bleu"


@dataclass(frozen=True)
class PhrasePairModel(Trained):
    """A linear function of features of phrase pairs.

    Legend: F features with weights, K features of all pairs, P pairs.
    """

    keys_F: Keys
    """Hashes of the features, in rising order."""
    weights_F: NDArray[np.float32]
    direction: Direction = "target-given-source"
    """Source and target are those of the table."""

    def values(self, bags: Bags) -> NDArray[np.float64]:
        """Return f of each pair, [P], summed in the order of its bag, so that it does not depend on other pairs."""
        if not len(self.keys_F):
            return np.zeros(len(bags))
        index_K = np.minimum(np.searchsorted(self.keys_F, bags.keys_K), len(self.keys_F) - 1)
        weight_K = np.where(self.keys_F[index_K] == bags.keys_K, self.weights_F[index_K], 0)
        return np.asarray(np.bincount(bags.pair_K, weight_K, minlength=len(bags)), np.float64)


def save_phrase_pair_model(folder: Path, model: PhrasePairModel, sections: dict[str, Any]) -> None:
    """Write a model into an existing folder; `sections` describe the training."""
    facts = {"model": {"family": FAMILY, "features": len(model.keys_F)}, **sections}
    write_description(folder, KIND, facts)
    # PyTorch supports few operations on unsigned tensors.
    keys = torch.from_numpy(model.keys_F.view(np.int64))
    save_tensors(folder, {"keys": keys, "weights": torch.from_numpy(model.weights_F)})


def load_phrase_pair_model(folder: Path) -> PhrasePairModel:
    """Read a model folder.

    Raises:
        UserError: a file is missing, damaged or of another format or kind, or the files do not belong together.
    """
    description = read_description(folder, KIND, {"model"})
    model, path = description["model"], network_file(folder, CONFIG)
    if model.get("family") != FAMILY:
        raise UserError(
            f"{path}: has features of another version; train again, or use the version of phrasescore that wrote it"
        )
    features = model.get("features")
    if not isinstance(features, int) or features < 0:
        raise UserError(f"{path}: lacks the number of features; copy the model folder again")
    if not network_file(folder, WEIGHTS).exists():
        raise UserError(f"{folder}: lacks {WEIGHTS}; copy the model folder again or train again")
    with open_weights(folder, description) as weights:
        tensors = weights.read({"keys": (features,), "weights": (features,)})
        keys_F, weights_F = tensors["keys"].numpy(), tensors["weights"].numpy()
        if keys_F.dtype != np.int64 or weights_F.dtype != np.float32:
            raise weights.misfit()
        keys_F = keys_F.view(np.uint64)
        if not (keys_F[1:] > keys_F[:-1]).all():
            raise weights.misfit()
        return PhrasePairModel(
            keys_F, weights_F, folder=folder, weights_digest=weights.sha256, is_checked=weights.are_checked
        )
