"""A trained function of phrase pairs as a folder, like that of a network; nothing in it is executable.

config.json            kind, what the features are and how many, how it was trained and on what, versions
weights.safetensors    `keys`, the 64 bits of each feature that it knows, in rising order, and `weights`, 32-bit floats;
                       with a digest of the file and one of what config.json says of it

    f(source, target) = sum over the features of the pair of their weights, 0 for those that are not known

It is part of a log-linear model's score, so exp(f) is the column of a phrase table; see `training` in
`moses_integration/expected_bleu` for how it comes about.
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
    """A linear function of features of phrase pairs."""

    keys_F: Keys
    """The features that it knows, in rising order."""
    weights_F: NDArray[np.float32]
    direction: Direction = "target-given-source"
    """Source and target are those of the table."""

    def values(self, bags: Bags) -> NDArray[np.float64]:
        """Return f of each pair, [P]: a sum in the order of the bag, so the same beside whatever other pairs."""
        if not len(self.keys_F):
            return np.zeros(len(bags))
        place_K = np.minimum(np.searchsorted(self.keys_F, bags.keys_K), len(self.keys_F) - 1)
        weight_K = np.where(self.keys_F[place_K] == bags.keys_K, self.weights_F[place_K], 0)
        return np.asarray(np.bincount(bags.pair_K, weight_K, minlength=len(bags)), np.float64)


def save_phrase_pair_model(folder: Path, function: PhrasePairModel, sections: dict[str, Any]) -> None:
    """Write a function into a folder, which must exist; `sections` say how it was trained, on what."""
    facts = {"model": {"family": FAMILY, "features": len(function.keys_F)}, **sections}
    write_description(folder, KIND, facts)
    # As PyTorch has them: tensors of unsigned numbers came late, and can do little.
    keys = torch.from_numpy(function.keys_F.view(np.int64))
    save_tensors(folder, {"keys": keys, "weights": torch.from_numpy(function.weights_F)})


def load_phrase_pair_model(folder: Path) -> PhrasePairModel:
    """Read a folder.

    Raises:
        UserError: a file is missing, damaged, of another format or kind, or does not belong to the other.
    """
    description = read_description(folder, KIND, {"model"})
    model, path = description["model"], network_file(folder, CONFIG)
    if model.get("family") != FAMILY:
        raise UserError(
            f"{path}: is of features that this version does not know; train again or use the version that wrote it"
        )
    features = model.get("features")
    if not isinstance(features, int) or features < 0:
        raise UserError(f"{path}: does not say how many features there are; copy the model folder again")
    if not network_file(folder, WEIGHTS).exists():
        raise UserError(f"{folder}: has lost its {WEIGHTS}; copy the model folder again or train again")
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
