"""Measure the updates per second of training on a phrase table and in context."""

from __future__ import annotations

from itertools import chain, count, islice
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import torch
from torch.utils.flop_counter import FlopCounterMode

from experiments.timing import timed
from phrasescore.device import Device, choose_device
from phrasescore.parallel_text import ParallelText
from phrasescore.training.run import Data, prepare
from phrasescore.training.settings import LearnsFrom, Settings

_WARM_UP = 5


def measure(table: Path, text: Path, device_name: str, updates: int) -> dict[str, Any]:
    """Measure the presets `small` and `context`.

    Args:
        table: phrase table.
        text: the path of tokenised parallel text without the endings `.en`, `.fr` and `.align`.
        device_name: device name for `choose_device`.
        updates: updates to measure.
    """
    device = choose_device(device_name, "auto")
    parallel = ParallelText(*(text.with_suffix(ending) for ending in (".en", ".fr", ".align")))
    return {
        "small": _measure("table", table, device, updates),
        "context": _measure("aligned", parallel, device, updates),
    }


def _measure(learns_from: LearnsFrom, data: Data, device: Device, updates: int) -> dict[str, float]:
    with TemporaryDirectory() as folder:
        trainer = prepare(data, Path(folder), Settings.of(learns_from, None, []), device)
        batches = chain.from_iterable(map(trainer.task.batches, count()))
        for examples in islice(batches, _WARM_UP):
            trainer._update(examples)
        with FlopCounterMode(display=False) as counter:
            trainer._update(next(batches))
        measured = list(islice(batches, updates))
        _synchronise(device)
        with timed() as timing:
            for examples in measured:
                trainer._update(examples)
            _synchronise(device)
        trainer.folder.release()
    return {
        "updates_per_second": updates / timing.seconds,
        "updates_per_cpu_second": updates / timing.cpu_seconds,
        "examples_per_second": sum(map(len, measured)) / timing.seconds,
        "share_of_roofline": counter.get_total_flops() * updates / timing.seconds / product_rate(device),
    }


def product_rate(device: Device) -> float:
    """Return the floating-point operations per second of a large matrix product in the precision of the device."""
    size = 512 if device.torch_device.type == "cpu" else 8192
    matrix = torch.ones(size, size, dtype=device.product_dtype, device=device.torch_device)
    rates = []
    for _ in range(5):
        _synchronise(device)
        with timed() as timing:
            for _ in range(10):
                torch.mm(matrix, matrix)
            _synchronise(device)
        rates.append(10 * 2 * size**3 / timing.seconds)
    return max(rates)


def _synchronise(device: Device) -> None:
    if device.torch_device.type == "cuda":
        torch.cuda.synchronize(device.torch_device)
