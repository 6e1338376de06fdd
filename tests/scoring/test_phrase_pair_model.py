from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from phrasescore.errors import UserError
from phrasescore.files.tensors import write_tensors
from phrasescore.model_folder import load_model, save_tensors
from phrasescore.scoring.phrase_pair_model import (
    KIND,
    PhrasePairModel,
    features_of,
    load_phrase_pair_model,
    save_phrase_pair_model,
)

PAIRS = [b"the dog", b"dog", b"the"], [b"le chien", b"chien", b""]


def function(seed: int = 1) -> PhrasePairModel:
    keys_F = np.unique(features_of(*PAIRS).keys_K)
    return PhrasePairModel(keys_F, np.random.default_rng(seed).normal(size=len(keys_F)).astype(np.float32))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    save_phrase_pair_model(tmp_path, function(), {"training": {"l2": 1e-6}})
    return tmp_path


def test_a_model_is_saved_and_loaded(folder: Path) -> None:
    loaded = load_phrase_pair_model(folder)
    assert loaded.values(features_of(*PAIRS)).tolist() == function().values(features_of(*PAIRS)).tolist()
    assert json.loads((folder / "config.json").read_text())["training"] == {"l2": 1e-6}


def test_the_value_is_the_sum_of_the_known_weights() -> None:
    known = function()
    half = PhrasePairModel(known.keys_F[::2], known.weights_F[::2])
    weights = dict(zip(half.keys_F.tolist(), half.weights_F.tolist(), strict=True))
    bags = features_of(*PAIRS)
    bag = [part.tolist() for part in np.split(bags.keys_K, bags.offsets[1:-1])]
    assert half.values(bags) == pytest.approx([sum(weights.get(key, 0.0) for key in keys) for keys in bag])
    nothing = PhrasePairModel(known.keys_F[:0], known.weights_F[:0])
    assert nothing.values(bags).tolist() == [0, 0, 0]
    assert len(half.values(features_of([], []))) == 0


def test_a_changed_bit_of_the_weights_is_noticed(folder: Path) -> None:
    path = folder / "weights.safetensors"
    content = path.read_bytes()
    for place in range(0, len(content), 29):
        path.write_bytes(content[:place] + bytes([content[place] ^ 4]) + content[place + 1 :])
        with pytest.raises(UserError, match=r"weights\.safetensors: "):
            load_phrase_pair_model(folder)


def changed(folder: Path, **facts: Any) -> None:
    description = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(description | facts))


@pytest.mark.parametrize(
    ("facts", "sentence"),
    [
        ({"kind": "encoder-decoder"}, "holds a network of the kind encoder-decoder"),
        ({"model": {"features": 1 << 60}}, "does not describe the network whose weights lie beside it"),
        ({"model": []}, "does not describe the network whose weights lie beside it"),
        ({"format": 99}, "has format 99"),
    ],
)
def test_another_description_is_an_error(folder: Path, facts: dict[str, Any], sentence: str) -> None:
    changed(folder, **facts)
    with pytest.raises(UserError, match=sentence):
        load_phrase_pair_model(folder)


@pytest.mark.parametrize(
    ("keys", "weights", "sentence"),
    [
        ([1, 2, 3], [1.0, 1.0, 1.0], "does not hold the weights that"),
        ([1, 2], [1.0, float("nan")], "weight weights holds a number that is not finite"),
    ],
)
def test_invalid_weights_are_errors(tmp_path: Path, keys: list[float], weights: list[float], sentence: str) -> None:
    save_phrase_pair_model(tmp_path, PhrasePairModel(np.array([1, 2], np.uint64), np.ones(2, np.float32)), {})
    save_tensors(tmp_path, {"keys": torch.tensor(keys), "weights": torch.tensor(weights)})
    with pytest.raises(UserError, match=sentence):
        load_phrase_pair_model(tmp_path)


def test_other_tensors_are_errors(folder: Path) -> None:
    write_tensors(folder / "weights.safetensors", {"keys": torch.zeros(1)}, {})
    with pytest.raises(UserError, match=r"config\.json: does not describe"):
        load_phrase_pair_model(folder)


def test_missing_weights_are_an_error(folder: Path) -> None:
    (folder / "weights.safetensors").unlink()
    with pytest.raises(UserError, match="lacks weights"):
        load_phrase_pair_model(folder)


def test_it_cannot_be_loaded_as_a_network(folder: Path) -> None:
    with pytest.raises(UserError, match=f"holds a network of the kind {KIND}"):
        load_model(folder)


def test_keys_beyond_63_bits_keep_their_order(tmp_path: Path) -> None:
    keys_F = np.array([1, 1 << 62, (1 << 63) + 1, (1 << 64) - 1], np.uint64)
    save_phrase_pair_model(tmp_path, PhrasePairModel(keys_F, np.ones(4, np.float32)), {})
    assert load_phrase_pair_model(tmp_path).keys_F.tolist() == keys_F.tolist()
