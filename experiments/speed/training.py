"""Training: pairs a second of a network of middle size."""

from __future__ import annotations

import time
from dataclasses import replace
from itertools import cycle, islice
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import torch

from experiments.speed.graphs import GraphedUpdates
from experiments.training import seconds_per_update
from phrasescore.device import Device, choose_device
from phrasescore.errors import UserError
from phrasescore.nn.config import ModelConfig
from phrasescore.pairs import DataConfig
from phrasescore.training.config import TrainingConfig
from phrasescore.training.run import Settings, prepare

SETTINGS = Settings(
    ModelConfig(hidden=512, embedding=128, maxout=256, output_rank=128, biases="all", initialisation="scaled"),
    DataConfig(source_vocabulary=11_000, target_vocabulary=11_000),
    TrainingConfig(batch_size=768),
)


def measure(table: Path, device_name: str, updates: int, *, cuda_graphs: bool = False) -> dict[str, Any]:
    """Train for some updates after a warm-up and return the speed, by the clock.

    Args:
        table: to learn from.
        device_name: as `choose_device` takes it.
        updates: whose time is taken.
        cuda_graphs: measure updates as CUDA graphs, too.

    Raises:
        UserError: there is no GPU for them.
    """
    device = choose_device(device_name, "auto")
    if cuda_graphs and device.torch_device.type != "cuda":
        raise UserError(f"--cuda-graphs: needs a GPU, this is {device}; leave it out, or give --device cuda")
    seconds = seconds_per_update(table, SETTINGS, device, updates, time.perf_counter)
    speed = SETTINGS.training.batch_size / seconds
    found = {"precision": device.precision, "updates": updates, "pairs_per_second": speed}
    if cuda_graphs:
        found["pairs_per_second_of_graphs"] = _graphed_speed(table, device, updates)
    return found


def _graphed_speed(table: Path, device: Device, updates: int) -> float:
    """Return pairs a second of updates as CUDA graphs, when all shapes have one."""
    with TemporaryDirectory() as folder:
        settings = replace(SETTINGS, training=replace(SETTINGS.training, max_updates=updates))
        trainer, _ = prepare(table, Path(folder) / "network", settings, device)
        update = GraphedUpdates(trainer)
        batches = list(trainer.task.batches(0))
        # Of the first pass the first few make no graph.
        for examples in batches * 2:
            update(examples)
        torch.cuda.synchronize(device.torch_device)
        started, pairs = time.perf_counter(), 0
        for examples in islice(cycle(batches), updates):
            update(examples)
            pairs += len(examples)
        torch.cuda.synchronize(device.torch_device)
        seconds = time.perf_counter() - started
        trainer.folder.release()
    return pairs / seconds
