"""The state of a run (network, optimiser, progress): resume it, share it among ranks, and save it.

The checkpoint is one file with a digest of its content (see `files.tensors`), so it is never a mixture of two states.
"""

from __future__ import annotations

import math
import os
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from typing import Any

import torch
from torch import Tensor, nn

from phrasescore.errors import UserError, is_out_of_memory, spelled
from phrasescore.files import full_disk_as_error, write_atomically
from phrasescore.files.tensors import DamagedError, open_tensors, write_tensors
from phrasescore.model_folder import save_weights
from phrasescore.training.ranks import Ranks
from phrasescore.training.run_folder import RunFolder

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
"""Descriptions of digests in a fingerprint, for messages."""


@dataclass
class Progress:
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
        self,
        folder: RunFolder,
        network: nn.Module,
        optimiser: torch.optim.Optimizer,
        fingerprint: dict[str, Any],
        ranks: Ranks,
    ) -> None:
        self._folder, self._network, self._optimiser, self._ranks = folder, network, optimiser, ranks
        self.fingerprint = fingerprint
        self.progress = Progress()
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
        self._follow_first()

    def _resume(self) -> bool:
        """Load the checkpoint in the folder; return whether there was one with at least one update."""
        path, metrics = self._folder.checkpoint, self._folder.metrics
        if not path.exists():
            return False
        try:
            with open_tensors(path) as file:
                progress = Progress(**file.facts["progress"])
                # A run that failed before its first update, for instance in a plugin, may start with other settings.
                if progress.update == 0:
                    return False
                if difference := self._difference(file.facts["run"]):
                    raise UserError(
                        f"{self._folder.path}: holds a run with {difference}; give the same to resume it, another "
                        f"folder, or {spelled('restart')} to start over"
                    )
                tensors = file.read()
                self._network.load_state_dict(_with_prefix(tensors, _NETWORK))
                load_optimiser(self._optimiser, _with_prefix(tensors, _OPTIMISER))
                # Drop the records of evaluations after the checkpoint. Users may delete the file.
                if metrics.exists() and metrics.stat().st_size > file.facts["metrics_size"]:
                    os.truncate(metrics, file.facts["metrics_size"])
        except (DamagedError, KeyError, TypeError, ValueError, IndexError, RuntimeError) as error:
            if is_out_of_memory(error):
                raise
            raise UserError(
                f"{path}: is damaged, so the training cannot be resumed; copy it again, or start over with "
                f"{spelled('restart')}"
            ) from error
        self.progress = progress
        return True

    def _difference(self, other: dict[str, Any]) -> str | None:
        """Describe the first difference between the fingerprints, None if they are equal."""
        for key in (*self.fingerprint, *other):
            if other.get(key) != self.fingerprint.get(key):
                return _DATA.get(key, f"another {key} ({other.get(key)}, now {self.fingerprint.get(key)})")
        return None

    def _check_ranks(self) -> None:
        """Check that all ranks have the same settings and data."""
        if difference := self._difference(self._ranks.of_first(lambda: self.fingerprint)):
            raise UserError(
                f"{self._folder.path}: process {self._ranks.rank} of this training has {difference}; start all with "
                "the same command and the same files"
            )
        self._ranks.wait()

    def _follow_first(self) -> None:
        """Copy the state from the first rank, which has started or resumed the run."""
        if self._ranks.number > 1:
            self.progress, network, optimiser = self._ranks.of_first(self._on_the_cpu)
            self._network.load_state_dict(network)
            load_optimiser(self._optimiser, optimiser)

    def _on_the_cpu(self) -> tuple[Progress, dict[str, Tensor], dict[str, Tensor]]:
        """Return the progress and the states of network and optimiser, with tensors on the CPU."""
        states = self._network.state_dict(), optimiser_tensors(self._optimiser)
        network, optimiser = ({name: tensor.cpu() for name, tensor in state.items()} for state in states)
        return self.progress, network, optimiser

    def record(self, line: bytes) -> None:
        """Append a line to `metrics.jsonl`."""
        with full_disk_as_error(str(self._folder.metrics)), self._folder.metrics.open("ab") as stream:
            stream.write(line)

    def save(self) -> None:
        """Write the checkpoint."""
        self.saved_at = time.monotonic()
        if not self._ranks.is_first:
            return
        metrics = self._folder.metrics
        tensors = {_NETWORK + name: tensor for name, tensor in self._network.state_dict().items()}
        tensors |= {_OPTIMISER + name: tensor for name, tensor in optimiser_tensors(self._optimiser).items()}
        facts = {
            "progress": asdict(self.progress),
            "run": self.fingerprint,
            "metrics_size": metrics.stat().st_size if metrics.exists() else 0,
        }
        write_tensors(self._folder.checkpoint, tensors, facts)

    def save_weights(self) -> None:
        """Write the best weights."""
        save_weights(self._folder.path, self._network)


def _with_prefix(tensors: Mapping[str, Tensor], prefix: str) -> dict[str, Tensor]:
    return {name.removeprefix(prefix): tensor for name, tensor in tensors.items() if name.startswith(prefix)}


def optimiser_tensors(optimiser: torch.optim.Optimizer) -> dict[str, Tensor]:
    """Return the state of an optimiser by name, such as `state.3.exp_avg` for the fourth weight.

    Numbers and tensors of parameter groups are included (`number.0.k`, `tensor.0.sum`), because some optimisers count
    their steps there.
    """
    state = optimiser.state_dict()
    found = {f"state.{index}.{key}": value for index, values in state["state"].items() for key, value in values.items()}
    for index, group in enumerate(state["param_groups"]):
        for kind, types in (("number", int | float), ("tensor", Tensor)):
            found |= {f"{kind}.{index}.{key}": value for key, value in group.items() if isinstance(value, types)}
    return {name: _as_tensor(value) for name, value in found.items()}


def _as_tensor(value: float | Tensor) -> Tensor:
    """Return a number as a tensor without loss of precision."""
    return torch.tensor(value, dtype=torch.float64) if isinstance(value, float) else torch.as_tensor(value)


def load_optimiser(optimiser: torch.optim.Optimizer, tensors: Mapping[str, Tensor]) -> None:
    """Load the state of an optimiser; see `optimiser_tensors`."""
    state = optimiser.state_dict()
    for name, tensor in tensors.items():
        kind, index, key = name.split(".", 2)
        if kind == "state":
            state["state"].setdefault(int(index), {})[key] = tensor
        else:
            state["param_groups"][int(index)][key] = tensor.item() if kind == "number" else tensor
    optimiser.load_state_dict(state)
