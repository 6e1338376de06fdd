"""From a phrase table to a trainer that is ready to go: vocabularies, pairs, network, earlier state."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import torch

from phrasescore.configuration import Section
from phrasescore.device import Device
from phrasescore.errors import UserError
from phrasescore.model_folder import CONFIG, TRAINING_STATE, WEIGHTS, save_description
from phrasescore.nn.config import ModelConfig
from phrasescore.nn.encoder_decoder import EncoderDecoder
from phrasescore.pairs import DataConfig, PhrasePairs, TableData, read_table, split_held_out
from phrasescore.training.config import BUDGET, TrainingConfig
from phrasescore.training.loop import CHECKPOINT, Trainer
from phrasescore.training.phrase_pairs import PhrasePairTask
from phrasescore.training.task import Task

AnyTask = TypeVar("AnyTask", bound=Task)

_MAY_CHANGE = BUDGET | {"patience"}
"""What may be different when a run is resumed."""


@dataclass(frozen=True)
class Settings:
    """Everything a user can set about a run."""

    model: ModelConfig
    data: DataConfig
    training: TrainingConfig

    def fixed(self) -> dict[str, Any]:
        """Return what must be the same when a run is resumed, as JSON values."""
        return fixed_values(self.model, self.data, self.training)


def fixed_values(*sections: Section) -> dict[str, Any]:
    """Return what of some sections must be the same when a run is resumed, as JSON values."""
    values = {item.name: getattr(section, item.name) for section in sections for item in fields(section)}
    fixed = {key: value for key, value in values.items() if key not in _MAY_CHANGE}
    return dict(json.loads(json.dumps(fixed, default=str)))


def prepare(
    table: str | Path,
    folder: Path,
    settings: Settings,
    device: Device,
    validation: Path | None = None,
    restart: bool = False,
    progress: Callable[[int, float | None], None] = lambda lines, share: None,
) -> tuple[Trainer[PhrasePairTask], TableData]:
    """Read the data and set up a trainer, at its start or where an earlier run in the folder stopped.

    Args:
        table: the phrase table.
        folder: the model folder; it is made if it does not exist.
        settings: architecture, data, training.
        device: where and how precisely to compute.
        validation: a table of pairs from other sentences.
        restart: start over even if the folder holds a run.
        progress: called with the lines and the share of the table read so far.

    Raises:
        UserError: the table is faulty, or the folder holds something else or a run with other settings.
    """
    make_run_folder(folder, restart)
    data = read_table(table, folder / TRAINING_STATE, settings.data, progress=progress)
    lines, held_out = split_held_out(data.distinct, settings.data, settings.training.seed)
    if not len(lines):
        raise UserError(f"{table}: leaves no pairs to train on; hold out less or give a larger table")
    vocabularies = data.source_vocabulary, data.target_vocabulary
    other = None
    if validation is not None:
        other = _some_pairs(
            read_table(validation, folder / TRAINING_STATE, settings.data, vocabularies, progress), settings
        )
    torch.manual_seed(settings.training.seed)
    network = EncoderDecoder(settings.model, *map(len, vocabularies)).to(device.torch_device)
    network.multiply_in(device.product_dtype)
    task = PhrasePairTask(network, settings.training, device, data.pairs, lines, data.pairs.take(held_out), other)
    run = {**settings.fixed(), "table": data.digest, "vocabularies": [words.digest() for words in vocabularies]}
    trainer = Trainer(folder, task, settings.training, device, run)

    def describe() -> None:
        provenance = {"table": str(table), **data.summary, **asdict(settings.training), "device": str(device)}
        save_description(folder, settings.model, settings.data.direction, *vocabularies, provenance)

    begin(trainer, describe, restart)
    return trainer, data


def begin(trainer: Trainer[AnyTask], describe: Callable[[], None], restart: bool) -> None:
    """Resume the run in a trainer's folder, or start one there.

    Args:
        trainer: a trainer at its start.
        describe: writes the description of a new model.
        restart: start over even if the folder holds a run.

    Raises:
        UserError: the folder holds a run with other settings or data, or a damaged one.
    """
    if restart:
        (trainer.folder / TRAINING_STATE / CHECKPOINT).unlink(missing_ok=True)
        (trainer.folder / WEIGHTS).unlink(missing_ok=True)
    if not trainer.resume():
        describe()
        trainer.save_checkpoint()


def _some_pairs(table: TableData, settings: Settings) -> PhrasePairs:
    """Return as many distinct pairs of a table as may be held out, drawn by the seed."""
    shuffled = np.random.default_rng([settings.training.seed, 2]).permutation(table.distinct)
    return table.pairs.take(np.sort(shuffled[: settings.data.held_out_limit]))


def make_run_folder(folder: Path, restart: bool) -> None:
    """Make a model folder for a run, or check that the one there may be used for it.

    Raises:
        UserError: it is no model folder, or holds weights without the state of their training.
    """
    state = folder / TRAINING_STATE
    if folder.exists() and not folder.is_dir():
        raise UserError(f"{folder}: is a file; give the name of a folder")
    if folder.exists() and any(folder.iterdir()) and not ((folder / CONFIG).exists() or state.exists()):
        raise UserError(f"{folder}: is not empty and holds no model; give a new folder")
    if not restart and (folder / WEIGHTS).exists() and not (state / CHECKPOINT).exists():
        raise UserError(
            f"{folder}: holds a network but not the state of its training; give another folder, or --restart "
            "to replace it"
        )
    state.mkdir(parents=True, exist_ok=True)
