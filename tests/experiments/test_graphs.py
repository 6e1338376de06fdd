from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from experiments.speed import training
from experiments.speed.graphs import GraphedUpdates, PaddedBatch, PaddedUpdates
from phrasescore.device import choose_device
from phrasescore.errors import UserError
from phrasescore.pairs import PhrasePairs
from phrasescore.phrases import Phrases
from phrasescore.training.config import TrainingConfig
from phrasescore.training.phrase_pairs import PhrasePairTask
from phrasescore.training.run import Settings, prepare
from phrasescore.transfer import on_device
from tests.nn.family import VARIANTS, config_of
from tests.nn.networks import WORDS, random_network

CPU = choose_device("cpu", "fp32")


@pytest.fixture(autouse=True)
def _double() -> Iterator[None]:
    torch.set_default_dtype(torch.float64)
    yield
    torch.set_default_dtype(torch.float32)


@pytest.mark.parametrize("name", VARIANTS)
def test_padding_moves_neither_loss_nor_gradient(name: str) -> None:
    random = np.random.default_rng(1)
    sides = [
        Phrases.from_lists(random.integers(2, WORDS, length).tolist() for length in lengths)
        for lengths in ((2, 5, 1, 3, 1), (6, 6, 3, 1, 0))
    ]
    pairs = PhrasePairs(*sides, np.linspace(1, 2, 5, dtype=np.float32))
    network = random_network(config_of(name))
    task = PhrasePairTask(network, TrainingConfig(), CPU, pairs, np.arange(5), pairs.take(np.arange(0)), None)
    batch = PaddedBatch.of(pairs, 7, network.encoder)
    assert batch.pairs.target.sizes == [7] * 6
    found = []
    for loss in (task.loss(np.arange(5)).mean, -(network(batch.pairs) * batch.weight_I).sum()):
        gradients = torch.autograd.grad(loss, list(network.parameters()))
        found.append(torch.cat([loss.detach()[None], *(gradient.flatten() for gradient in gradients)]))
    assert (found[0] - found[1]).abs().max() < 1e-9
    assert found[0][1:].abs().max() > 1e-3


def test_padded_updates_are_those_of_a_trainer(small_table: Path, tmp_path: Path, tiny_settings: Settings) -> None:
    options = replace(tiny_settings.training, schedule="constant", warmup_updates=0, clip=0.5)
    one, other = (
        prepare(small_table, tmp_path / name, replace(tiny_settings, training=options), CPU)[0] for name in "ab"
    )
    padded = PaddedUpdates(other)
    shapes = set()
    for examples in one.task.batches(0):
        one._timed_update(examples)
        batch = padded.batch(examples)
        shapes.add((int(batch.pairs.sources.closed.lengths[0]), len(batch.weight_I)))
        padded.update(batch)
    assert len(shapes) > 1
    for ours, theirs in zip(one.network.parameters(), other.network.parameters(), strict=True):
        assert (ours - theirs).abs().max() < 1e-9
    for trainer in (one, other):
        trainer.folder.release()


@pytest.mark.gpu
def test_graphs_make_the_updates_they_were_captured_from(
    small_table: Path, tmp_path: Path, tiny_settings: Settings
) -> None:
    device = choose_device("cuda", "fp32")
    options = replace(tiny_settings.training, clip=0.5)
    one, other = (
        prepare(small_table, tmp_path / name, replace(tiny_settings, training=options), device)[0] for name in "ab"
    )
    padded, graphed = PaddedUpdates(one), GraphedUpdates(other)
    for examples in [*one.task.batches(0), *one.task.batches(1)]:
        expected = padded.update(on_device(padded.batch(examples), device.torch_device))
        assert (graphed(examples) - expected).abs() < 1e-9
    for ours, theirs in zip(one.network.parameters(), other.network.parameters(), strict=True):
        assert (ours - theirs).abs().max() < 1e-9
    for trainer in (one, other):
        trainer.folder.release()


def test_graphs_want_a_gpu(small_table: Path) -> None:
    with pytest.raises(UserError, match=r"--cuda-graphs: needs a GPU, this is cpu .*; leave it out, or give"):
        training.measure(small_table, "cpu", 1, cuda_graphs=True)
