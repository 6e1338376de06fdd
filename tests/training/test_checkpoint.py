"""Damaged training checkpoints."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
import torch

from phrasescore.errors import UserError
from phrasescore.files.tensors import open_tensors, write_tensors
from phrasescore.model_files import METRICS, WEIGHTS
from phrasescore.training.loop import Start
from phrasescore.training.run import prepare
from phrasescore.training.settings import Settings
from tests.training.runs import CPU, contents, train


def test_a_damaged_state_of_training_is_one_sentence(
    small_table: Path, tmp_path: Path, tiny_settings: Settings
) -> None:
    folder = tmp_path / "run"
    train(small_table, folder, tiny_settings)
    before, path = contents(folder), folder / METRICS
    # Records after the checkpoint, as a killed run leaves them, are removed.
    path.write_bytes(path.read_bytes() + b'{"update": 3')
    prepare(small_table, folder, tiny_settings, CPU)
    assert contents(folder) == before
    path.unlink()
    prepare(small_table, folder, tiny_settings, CPU)
    # A weights file is not a checkpoint.
    shutil.copy(folder / WEIGHTS, folder / "training-state/checkpoint.safetensors")
    with pytest.raises(UserError, match=r"checkpoint\.safetensors: is damaged"):
        prepare(small_table, folder, tiny_settings, CPU)


def test_a_damaged_state_of_training_does_not_cost_the_weights(
    small_table: Path, tmp_path: Path, tiny_settings: Settings
) -> None:
    """A damaged checkpoint does not cost the best weights.

    The damage is one flipped bit in the network, in the optimiser or in the record of the run.
    """
    folder = tmp_path / "run"
    train(small_table, folder, tiny_settings)
    path = folder / "training-state/checkpoint.safetensors"
    content = path.read_bytes()
    for place in (0, 20, 60, content.index(b"best_loss") + 20, len(content) // 2, len(content) - 1):
        path.write_bytes(content[:place] + bytes([content[place] ^ 4]) + content[place + 1 :])
        before = contents(folder)
        with pytest.raises(UserError, match=rf"^{path}: is damaged, so .*; copy it again, or start over with restart"):
            prepare(small_table, folder, tiny_settings, CPU)
        assert contents(folder) == before
    assert prepare(small_table, folder, tiny_settings, CPU, start=Start(restart=True)).progress.update == 0


def test_a_state_of_another_network_is_not_read(small_table: Path, tmp_path: Path, tiny_settings: Settings) -> None:
    folder = tmp_path / "run"
    train(small_table, folder, tiny_settings, stop_after=1)
    path = folder / "training-state/checkpoint.safetensors"
    with open_tensors(path) as file:
        facts, tensors = file.facts, file.read()
    for changes in ({"optimiser.what": torch.zeros(1)}, {"network.other": torch.zeros(1)}):
        write_tensors(path, {**tensors, **changes}, facts)
        with pytest.raises(UserError, match=r"checkpoint\.safetensors: is damaged"):
            prepare(small_table, folder, tiny_settings, CPU)
