"""Helpers that interrupt training runs and compare their results."""

from __future__ import annotations

import itertools
import json
from pathlib import Path
from typing import Any

import pytest

from phrasescore.device import Device, choose_device
from phrasescore.model_files import METRICS, WEIGHTS
from phrasescore.training.loop import Callbacks, Trainer
from phrasescore.training.run import prepare
from phrasescore.training.settings import Settings
from phrasescore.training.tasks import PhrasePairTask, TaskT

CPU = choose_device("cpu", "fp32")


def run_until(trainer: Trainer[TaskT], stop_after: int | None = None) -> Trainer[TaskT]:
    """Train until a number of updates, or to the end; return the trainer."""
    trainer.callbacks = Callbacks(should_stop=lambda: trainer.progress.update == stop_after)
    trainer.train()
    return trainer


def train(
    table: Path, folder: Path, settings: Settings, stop_after: int | None = None, device: Device = CPU
) -> Trainer[PhrasePairTask]:
    """Train on a phrase table, resuming an earlier run; return the trainer."""
    return run_until(prepare(table, folder, settings, device), stop_after)


def metrics(folder: Path) -> list[dict[str, Any]]:
    """Return the evaluation records without their timings."""
    records = [json.loads(line) for line in (folder / METRICS).read_text().splitlines()]
    return [
        {key: value for key, value in record.items() if key != "seconds" and not key.endswith("_per_second")}
        for record in records
    ]


def outcome(folder: Path) -> tuple[bytes, list[dict[str, Any]]]:
    """Return the weights and the records, which are equal for two runs with the same updates."""
    return (folder / WEIGHTS).read_bytes(), metrics(folder)


def contents(folder: Path) -> dict[str, bytes]:
    """Return the content of all files of a folder."""
    return {str(path): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


class KilledError(Exception):
    """Simulates SIGKILL: no handler catches it."""


def die_in(patched: pytest.MonkeyPatch, owner: Any, name: str, after: int = 0) -> None:
    """Make a function raise KilledError after a number of calls."""
    whole, calls = getattr(owner, name), itertools.count()

    def dying(*arguments: Any, **options: Any) -> Any:
        if next(calls) == after:
            raise KilledError
        return whole(*arguments, **options)

    patched.setattr(owner, name, dying)
