"""Trainings that tests stop or break off, and what is left of them."""

from __future__ import annotations

import itertools
import json
from pathlib import Path
from typing import Any

import pytest

from phrasescore.device import Device, choose_device
from phrasescore.model_files import METRICS, WEIGHTS
from phrasescore.training.loop import Trainer, Watcher
from phrasescore.training.phrase_pairs import PhrasePairTask
from phrasescore.training.run import prepare
from phrasescore.training.settings import Settings
from phrasescore.training.task import TaskT

CPU = choose_device("cpu", "fp32")


def run_until(trainer: Trainer[TaskT], stop_after: int | None = None) -> Trainer[TaskT]:
    """Train until so many updates are done, or to the end; return the trainer."""
    trainer.watcher = Watcher(should_stop=lambda: trainer.progress.update == stop_after)
    trainer.train()
    return trainer


def train(
    table: Path, folder: Path, settings: Settings, stop_after: int | None = None, device: Device = CPU
) -> Trainer[PhrasePairTask]:
    """Train on a phrase table, from where an earlier run stopped; return the trainer."""
    return run_until(prepare(table, folder, settings, device)[0], stop_after)


def metrics(folder: Path) -> list[dict[str, Any]]:
    """Return the records of the evaluations without what the clock says."""
    records = [json.loads(line) for line in (folder / METRICS).read_text().splitlines()]
    return [
        {key: value for key, value in record.items() if key != "seconds" and not key.endswith("_per_second")}
        for record in records
    ]


def outcome(folder: Path) -> tuple[bytes, list[dict[str, Any]]]:
    """Return what two runs that do the same updates have in common: the weights and the records."""
    return (folder / WEIGHTS).read_bytes(), metrics(folder)


def contents(folder: Path) -> dict[str, bytes]:
    """Return all files of a folder."""
    return {str(path): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


class KilledError(Exception):
    """Stands for a kill, which no handler sees."""


def die_in(patched: pytest.MonkeyPatch, owner: Any, name: str, after: int = 0) -> None:
    """Let a function end the run when it is called once more than so many times."""
    whole, calls = getattr(owner, name), itertools.count()

    def dying(*arguments: Any, **options: Any) -> Any:
        if next(calls) == after:
            raise KilledError
        return whole(*arguments, **options)

    patched.setattr(owner, name, dying)
