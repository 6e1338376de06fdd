"""A network of an experiment: trained by `phrasescore`, and what is known of it then; how long training takes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import torch
from safetensors.numpy import load_file

from experiments.machine import machine
from experiments.steps import clear_if_changed, run_phrasescore
from phrasescore.device import Device
from phrasescore.documents import read_json, read_json_lines
from phrasescore.files import sha256_of
from phrasescore.model_folder import CONFIG, METRICS, WEIGHTS
from phrasescore.training.loop import Watcher
from phrasescore.training.run import Settings, prepare

Json = dict[str, Any]

_WARMUP = 20
"""Updates before those whose time is taken."""


def train(folder: Path, command: Sequence[str], depends_on: Any) -> Json:
    """Train a network, going on where an earlier call with the same settings was stopped.

    Args:
        folder: the model folder.
        command: the words before `-o FOLDER`, beginning with `train` or `lm train`; checked before, for a folder is
            deleted for options that have changed.
        depends_on: all that the network depends on, as JSON can hold it.

    Returns:
        What is known of the network: its size, its configuration with the device and the versions it was computed with,
        where that was, and all evaluations, of which `best` is that of the weights kept.

    Raises:
        UserError: the training fails.
    """
    clear_if_changed(folder, depends_on)
    run_phrasescore([*command, "-o", str(folder)])
    evaluations = read_json_lines(folder / METRICS, "train again")
    return {
        "parameters": sum(weight.size for weight in load_file(folder / WEIGHTS).values()),
        "weights_sha256": sha256_of(folder / WEIGHTS),
        "config": read_json(folder / CONFIG, "train again"),
        "machine": machine(),
        "evaluations": evaluations,
        "best": [one for one in evaluations if one["best"]][-1],
    }


def seconds_per_update(
    table: Path, settings: Settings, device: Device, updates: int, clock: Callable[[], float]
) -> float:
    """Return what an update of a training on a phrase table takes; preparing it and warming up are left out.

    Args:
        table: to learn from.
        settings: of the training, but for its budget.
        device: where to compute.
        updates: whose mean is taken.
        clock: what tells the time, in seconds.

    Raises:
        UserError: the table has nothing to learn, or the settings do not fit it.
    """
    # So many that the learning rate does not fall; the evaluations never come.
    training = replace(settings.training, epochs=None, max_updates=10**9, max_minutes=None, evaluate_every=10**9)
    times: list[float] = []

    with TemporaryDirectory() as folder:
        trainer, _ = prepare(table, Path(folder) / "network", replace(settings, training=training), device)

        def note() -> bool:
            update = trainer.progress.update
            if update in (_WARMUP, _WARMUP + updates):
                if device.torch_device.type == "cuda":
                    torch.cuda.synchronize(device.torch_device)
                times.append(clock())
            return update >= _WARMUP + updates

        trainer.watcher = Watcher(should_stop=note)
        trainer.train()
    started, ended = times
    return (ended - started) / updates
