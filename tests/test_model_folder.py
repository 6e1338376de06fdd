"""Damaged files of model folders are named, and an untrusted size does not allocate memory."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, TypeAlias

import pytest
import torch
from safetensors.torch import load_file, save_file

from phrasescore import model_folder
from phrasescore.errors import UserError
from phrasescore.model_folder import load_language_model, load_model, save_tensors
from phrasescore.nn import weights as nn_weights
from phrasescore.nn.architecture import NeuralLmConfig
from phrasescore.nn.encoder_decoder import EncoderDecoder
from phrasescore.nn.neural_lm import NeuralLanguageModel
from phrasescore.vocabulary import Vocabulary
from tests.conftest import TINY

SOURCE, TARGET = Vocabulary([b"a", b"b", b"c"]), Vocabulary([b"A", b"B"])
LM_CONFIG = NeuralLmConfig(order=3, embedding=4, first_hidden=5, second_hidden=4)


def save_pair_model(folder: Path, seed: int = 1) -> None:
    folder.mkdir(exist_ok=True)
    torch.manual_seed(seed)
    model_folder.save_description(folder, TINY, "target-given-source", SOURCE, TARGET, {})
    model_folder.save_weights(folder, EncoderDecoder(TINY, len(SOURCE), len(TARGET)))


def save_language_model(folder: Path) -> None:
    folder.mkdir(exist_ok=True)
    torch.manual_seed(1)
    model_folder.save_lm_description(folder, LM_CONFIG, SOURCE, {})
    model_folder.save_weights(folder, NeuralLanguageModel(LM_CONFIG, len(SOURCE)))


Save: TypeAlias = Callable[[Path], None]
Load: TypeAlias = Callable[[Path], Any]
KINDS = pytest.mark.parametrize(
    ("save", "load"), [(save_pair_model, load_model), (save_language_model, load_language_model)]
)


@KINDS
def test_every_file_a_network_is_made_of_is_checked(tmp_path: Path, save: Save, load: Load) -> None:
    """Every file of a network is verified: the message names the file with a flipped bit."""
    save(tmp_path)
    load(tmp_path)
    for path in tmp_path.iterdir():
        content = path.read_bytes()
        places = (
            [content.index(b'"model"') + 30, *range(0, len(content), 97)]
            if path.suffix == ".json"
            else range(0, len(content), 97)
        )
        for place in places:
            path.write_bytes(content[:place] + bytes([content[place] ^ 4]) + content[place + 1 :])
            try:
                load(tmp_path)
            except UserError as error:
                assert str(path) in str(error)  # noqa: PT017
            else:
                # The record of training and versions.
                assert path.suffix == ".json"
                assert scoring_facts(path.read_bytes()) == scoring_facts(content)
        path.write_bytes(content)


def scoring_facts(content: bytes) -> list[Any]:
    description = json.loads(content)
    keys = ("format", "kind", "model", "direction", "source_vocabulary", "target_vocabulary", "vocabulary", "factors")
    return [description.get(key) for key in keys]


def test_a_number_of_another_size_is_named(tmp_path: Path) -> None:
    """A number of another magnitude is reported: a flipped exponent bit scales it by 2^64, and it stays finite."""
    save_pair_model(tmp_path)
    path = tmp_path / "weights.safetensors"
    content = bytearray(path.read_bytes())
    content[-1] ^= 0x20
    path.write_bytes(content)
    with pytest.raises(
        UserError, match=r"weights\.safetensors: is damaged; copy the model folder again or train again"
    ):
        load_model(tmp_path)


def test_a_description_that_the_weights_were_not_trained_with(tmp_path: Path) -> None:
    """A description that does not belong to the weights is an error.

    A network that reads backwards has the same weight shapes.
    """
    save_pair_model(tmp_path)
    path = tmp_path / "config.json"
    description = json.loads(path.read_bytes())
    changed: list[tuple[str, object]] = [
        ("model", {**description["model"], "reverse_source": True}),
        ("model", 5),
        ("direction", "source-given-target"),
        ("factors", [1]),
        ("source_vocabulary", 3),
        ("target_vocabulary", {"sha256": None}),
    ]
    for key, value in changed:
        path.write_text(json.dumps({**description, key: value}))
        with pytest.raises(
            UserError, match=r"config\.json: does not describe the network whose weights lie beside it; copy"
        ):
            load_model(tmp_path)
    for plugins in ("unit.py", [{"path": "unit.py"}]):
        path.write_text(json.dumps({**description, "plugins": plugins}))
        with pytest.raises(UserError, match=r"config\.json: does not describe a network; copy"):
            load_model(tmp_path)
    # A plugin file may change without effect on the results, see docs/plugins.md.
    path.write_text(json.dumps({**description, "plugins": [{"path": "unit.py", "sha256": "0"}]}))
    load_model(tmp_path)


def test_weights_that_are_missing(tmp_path: Path) -> None:
    """Training creates an empty record before the first weights."""
    save_pair_model(tmp_path)
    (tmp_path / "weights.safetensors").unlink()
    for record, message in (
        (None, r"has no weights\.safetensors yet; let `train` reach"),
        ("", r"has no weights\.safetensors yet; let `train` reach"),
        ("{}\n", r"has lost its weights\.safetensors; copy"),
    ):
        if record is not None:
            (tmp_path / "metrics.jsonl").write_text(record)
        with pytest.raises(UserError, match=message):
            load_model(tmp_path)


def test_weights_of_another_network(tmp_path: Path) -> None:
    for name in ("one", "other"):
        save_pair_model(tmp_path / name)
    path = tmp_path / "one"
    model_folder.save_description(path, TINY, "target-given-source", SOURCE, SOURCE, {})
    with pytest.raises(UserError, match="does not describe the network whose weights"):
        load_model(path)


@KINDS
def test_weights_without_digests_are_damaged(tmp_path: Path, save: Save, load: Load) -> None:
    save(tmp_path)
    path = tmp_path / "weights.safetensors"
    save_file(load_file(path), path)
    with pytest.raises(UserError, match=f"^{path}: is damaged"):
        load(tmp_path)


def claim(folder: Path, **sizes: Any) -> None:
    """Make a folder claim other sizes, with correct digests."""
    path, weights = folder / "config.json", folder / "weights.safetensors"
    description = json.loads(path.read_bytes())
    path.write_text(json.dumps({**description, "model": {**description["model"], **sizes}}))
    with suppress(UserError):
        save_tensors(folder, load_file(weights))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"encoder_layers": 1_000_000}, "encoder_layers is 1000000; give at most 64"),
        ({"hidden": 2**31 - 1}, "hidden is 2147483647; give at most 65536"),
        ({"hidden": 10**400}, r"config\.json: has a whole number of more than 64 bits"),
        (
            {"hidden": 65536, "encoder_layers": 64},
            r"config\.json: the network would have [0-9,]* parameters, more than",
        ),
        ({"hidden": 10_000}, "does not hold the weights that config.json describes"),
    ],
)
def test_a_network_larger_than_its_weights_takes_no_memory(
    tmp_path: Path, changes: dict[str, Any], message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    save_pair_model(tmp_path)
    claim(tmp_path, **changes)
    built: list[EncoderDecoder] = []

    def build(*sizes: Any) -> EncoderDecoder:
        built.append(EncoderDecoder(*sizes))
        return built[-1]

    monkeypatch.setattr(model_folder, "EncoderDecoder", build)
    with pytest.raises(UserError, match=message):
        load_model(tmp_path)
    assert all(tensor.is_meta for network in built for tensor in network.parameters())


def test_a_language_model_larger_than_its_weights(tmp_path: Path) -> None:
    for changes, message in (
        ({"first_hidden": 60_000, "second_hidden": 60_000}, r"config\.json: the network would have .* parameters"),
        ({"order": 64}, "does not hold the weights"),
        ({"order": 65}, "order is 65; give at most 64"),
    ):
        save_language_model(tmp_path)
        claim(tmp_path, **changes)
        with pytest.raises(UserError, match=message):
            load_language_model(tmp_path)


def test_a_network_that_may_be_too_large_is_known_without_numbers(monkeypatch: pytest.MonkeyPatch) -> None:
    def build() -> torch.nn.Module:
        return torch.nn.Linear(30, 10)

    assert nn_weights.check_size(build) == {"weight": (10, 30), "bias": (10,)}
    monkeypatch.setattr(nn_weights, "MOST_PARAMETERS", 309)
    with pytest.raises(UserError, match="the network would have 310 parameters, more than 309; give smaller sizes"):
        nn_weights.check_size(build)


def test_a_part_that_needs_numbers_is_built(tmp_path: Path) -> None:
    """A unit that needs tensor values at construction is built, as a plugin's may be."""

    def build() -> torch.nn.Module:
        layer = torch.nn.Linear(2, 1)
        assert float(layer.weight.sum()) < 9
        return layer

    assert nn_weights.check_size(build) == {"weight": (1, 2), "bias": (1,)}


@pytest.mark.parametrize("name", ["config.json", "weights.safetensors", "vocab.source.txt"])
def test_a_pipe_in_the_place_of_a_file(tmp_path: Path, name: str) -> None:
    save_pair_model(tmp_path)
    (tmp_path / name).unlink()
    os.mkfifo(tmp_path / name)
    with pytest.raises(UserError, match=f"{name}: is a pipe, a device or a folder"):
        load_model(tmp_path)


def test_weights_with_holes(tmp_path: Path) -> None:
    save_pair_model(tmp_path)
    os.truncate(tmp_path / "weights.safetensors", 1 << 34)
    with pytest.raises(UserError, match=r"weights\.safetensors: is damaged"):
        load_model(tmp_path)
