"""A training run in its model folder: check and lock it, resume the run, share its state among ranks, and save it.

The checkpoint is one file with a digest of its content (see `files.tensors`), so it is never a mixture of two states.
"""

from __future__ import annotations

import math
import os
import shutil
import time
import weakref
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from phrasescore.errors import UserError, arg_name, is_out_of_memory, reported_as
from phrasescore.files import (
    STANDARD_STREAM,
    full_disk_as_error,
    lock_file,
    make_folder,
    real_path,
    require_folder,
    write_atomically,
)
from phrasescore.files.tensors import DamagedError, open_tensors, write_tensors
from phrasescore.model_files import CHECKPOINT, CONFIG, METRICS, TRAINING_STATE, WEIGHTS, model_kind
from phrasescore.model_folder import save_weights
from phrasescore.training.ranks import ALONE, Ranks

_LOCK = "lock"


class RunFolder:
    """A model folder locked for one run, until `release` is called or the object is garbage-collected."""

    def __init__(self, path: Path, *, is_taken: bool = False) -> None:
        """Lock the folder, unless the first rank of the run has locked it."""
        self.path = path
        self.checkpoint, self.metrics = path / TRAINING_STATE / CHECKPOINT, path / METRICS
        self.release: Callable[[], object] = lambda: None
        if not is_taken:
            message = f"{path}: another run is training in this folder; wait for it or give another"
            self.release = weakref.finalize(self, lock_file(path / TRAINING_STATE / _LOCK, message).close)

    def clear(self) -> None:
        """Remove the files of an earlier run.

        The checkpoint comes first, so that a kill never leaves it with the files of another run.
        """
        for file in (self.checkpoint, self.path / WEIGHTS, self.metrics):
            file.unlink(missing_ok=True)


@contextmanager
def run_folder(folder: Path, restart: bool, kind: str, ranks: Ranks = ALONE) -> Iterator[RunFolder]:
    """Create or check the model folder of a run, and lock it; an error restores a folder that was new or empty."""
    if not ranks.is_first:
        ranks.barrier()
        yield RunFolder(folder, is_taken=True)
        return
    require_folder(folder)
    was_there, is_new = folder.exists(), not folder.exists() or not any(folder.iterdir())
    if not is_new:
        _check(folder, restart, kind)
    state = folder / TRAINING_STATE
    with reported_as({state: folder}):
        make_folder(state)
    run = RunFolder(folder)
    try:
        ranks.barrier()
        yield run
    except BaseException:
        run.release()
        if is_new:
            shutil.rmtree(folder, ignore_errors=True)
            if was_there:
                folder.mkdir(exist_ok=True)
        raise


def _check(folder: Path, restart: bool, kind: str) -> None:
    if not (folder / CONFIG).exists() and not (folder / TRAINING_STATE).exists():
        raise UserError(f"{folder}: is not empty and holds no model; give a new folder")
    if (folder / CONFIG).exists() and model_kind(folder) != kind:
        raise UserError(f"{folder}: holds a network of the kind {model_kind(folder)}; give another folder")
    if not restart and (folder / WEIGHTS).exists() and not (folder / TRAINING_STATE / CHECKPOINT).exists():
        raise UserError(
            f"{folder}: holds a network but not the state of its training; give another folder, or "
            f"{arg_name('restart')} to replace it"
        )


def absolute_paths(files: Mapping[str, str | Path | None]) -> dict[str, str | None]:
    """Return absolute paths for the description of a model; `-` is kept."""
    return {
        name: None if path is None else STANDARD_STREAM if str(path) == STANDARD_STREAM else str(real_path(path))
        for name, path in files.items()
    }


_NETWORK, _OPTIMISER = "network.", "optimiser."
_DATA = {
    "table": "another table",
    "sentences": "other sentences",
    "text": "another text",
    "validation": "other validation data",
    "vocabularies": "other vocabularies",
    "shortlist": "another shortlist",
    "plugins": "other plugins, or changed ones (config.json names them)",
}


@dataclass
class TrainingProgress:
    """Progress of a run."""

    update: int = 0
    epoch: int = 0
    batch: int = 0
    """Completed batches of the current epoch."""
    seconds: float = 0.0
    best_loss: float | None = None
    best_update: int = 0
    evaluations_without_gain: int = 0
    loss_sum: float = 0.0
    """Sums since the last evaluation: loss, terms, examples and seconds."""
    loss_terms: int = 0
    example_sum: int = 0
    second_sum: float = 0.0
    finished: str | None = None
    """Why the run ended, None while it runs. Not stored, because a resumed run may have another budget."""

    @property
    def training_loss(self) -> float:
        """Mean loss per term since the last evaluation; NaN without terms."""
        return self.loss_sum / self.loss_terms if self.loss_terms else math.nan

    @property
    def examples_per_second(self) -> float:
        """Speed since the last evaluation."""
        return self.example_sum / self.second_sum if self.second_sum else 0.0


class RunState:
    """The state of a run on each rank. Only the first rank reads and writes the folder."""

    def __init__(
        self, folder: RunFolder, network: nn.Module, optimiser: Optimizer, fingerprint: dict[str, Any], ranks: Ranks
    ) -> None:
        self._folder, self._network, self._optimiser, self._ranks = folder, network, optimiser, ranks
        self.fingerprint = fingerprint
        self.progress = TrainingProgress()
        self.saved_at = time.monotonic()

    def begin(self, describe: Callable[[], None], restart: bool) -> None:
        """Resume the run in the folder or start a new one; `describe` writes the description of the model into it."""
        self._check_ranks()
        if self._ranks.is_first:
            is_resumed = not restart and self._resume()
            if not is_resumed:
                self._folder.clear()
            describe()
            if not is_resumed:
                write_atomically(self._folder.metrics, b"")
                self.save()
            elif self.progress.best_loss is not None and self.progress.best_update == self.progress.update:
                # A kill may have kept the earlier run from writing the weights of the checkpoint.
                self.save_weights()
        if self._ranks.world_size > 1:
            # Copy the state from the first rank, which has started or resumed the run.
            self.progress, tensors = self._ranks.broadcast_from_first(
                lambda: (self.progress, {name: tensor.cpu() for name, tensor in self._tensors().items()})
            )
            self._load(tensors)

    def _resume(self) -> bool:
        """Load the checkpoint in the folder; return whether there was one with at least one update."""
        path, metrics = self._folder.checkpoint, self._folder.metrics
        if not path.exists():
            return False
        try:
            with open_tensors(path) as file:
                progress = TrainingProgress(**file.facts["progress"])
                # A run that failed before its first update, for instance in a plugin, may start with other settings.
                if progress.update == 0:
                    return False
                if difference := self._difference(file.facts["run"]):
                    raise UserError(
                        f"{self._folder.path}: holds a run with {difference}; give the same to resume it, another "
                        f"folder, or {arg_name('restart')} to start over"
                    )
                self._load(file.read())
                # Drop the records of evaluations after the checkpoint. Users may delete the file.
                if metrics.exists() and metrics.stat().st_size > file.facts["metrics_size"]:
                    os.truncate(metrics, file.facts["metrics_size"])
        except (DamagedError, KeyError, TypeError, ValueError, IndexError, RuntimeError) as error:
            if is_out_of_memory(error):
                raise
            raise UserError(
                f"{path}: is damaged, so the training cannot be resumed; copy it again, or start over with "
                f"{arg_name('restart')}"
            ) from error
        self.progress = progress
        return True

    def _difference(self, other: dict[str, Any]) -> str | None:
        """Describe the first difference between the fingerprints, None if they are equal."""
        for key in (*self.fingerprint, *other):
            if other.get(key) != self.fingerprint.get(key):
                is_known = key in other and key in self.fingerprint
                changed = f"another {key} ({other.get(key)}, now {self.fingerprint.get(key)})"
                return _DATA.get(key, changed if is_known else f"the settings of another version, without {key}")
        return None

    def _check_ranks(self) -> None:
        if difference := self._difference(self._ranks.broadcast_from_first(lambda: self.fingerprint)):
            raise UserError(
                f"{self._folder.path}: process {self._ranks.rank} of this training has {difference}; start all with "
                "the same command and the same files"
            )
        self._ranks.barrier()

    def _tensors(self) -> dict[str, Tensor]:
        tensors = {_NETWORK + name: tensor for name, tensor in self._network.state_dict().items()}
        return tensors | {_OPTIMISER + name: tensor for name, tensor in optimiser_tensors(self._optimiser).items()}

    def _load(self, tensors: Mapping[str, Tensor]) -> None:
        network, optimiser = (
            {name.removeprefix(prefix): tensor for name, tensor in tensors.items() if name.startswith(prefix)}
            for prefix in (_NETWORK, _OPTIMISER)
        )
        self._network.load_state_dict(network)
        load_optimiser(self._optimiser, optimiser)

    def record(self, line: bytes) -> None:
        with full_disk_as_error(str(self._folder.metrics)), self._folder.metrics.open("ab") as stream:
            stream.write(line)

    def save(self) -> None:
        self.saved_at = time.monotonic()
        if not self._ranks.is_first:
            return
        metrics = self._folder.metrics
        size = metrics.stat().st_size if metrics.exists() else 0
        facts = {"progress": asdict(self.progress), "run": self.fingerprint, "metrics_size": size}
        write_tensors(self._folder.checkpoint, self._tensors(), facts)

    def save_weights(self) -> None:
        save_weights(self._folder.path, self._network)


def optimiser_tensors(optimiser: Optimizer) -> dict[str, Tensor]:
    """Return the state of an optimiser by name, such as `state.3.exp_avg` for the fourth weight.

    Numbers and tensors of parameter groups are included (`number.0.k`, `tensor.0.sum`), because some optimisers count
    their steps there.
    """
    state = optimiser.state_dict()
    found = {f"state.{index}.{key}": value for index, values in state["state"].items() for key, value in values.items()}
    for index, group in enumerate(state["param_groups"]):
        for kind, types in (("number", int | float), ("tensor", Tensor)):
            found |= {f"{kind}.{index}.{key}": value for key, value in group.items() if isinstance(value, types)}
    # Numbers lose no precision.
    return {
        name: torch.tensor(value, dtype=torch.float64) if isinstance(value, float) else torch.as_tensor(value)
        for name, value in found.items()
    }


def load_optimiser(optimiser: Optimizer, tensors: Mapping[str, Tensor]) -> None:
    """Load the state of an optimiser; see `optimiser_tensors`."""
    state = optimiser.state_dict()
    for name, tensor in tensors.items():
        kind, index, key = name.split(".", 2)
        if kind == "state":
            state["state"].setdefault(int(index), {})[key] = tensor
        else:
            state["param_groups"][int(index)][key] = tensor.item() if kind == "number" else tensor
    optimiser.load_state_dict(state)
