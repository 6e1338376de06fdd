"""The state of a training run as one file, so that it can never be half of two states.

It carries a digest of itself (see `tensor_file`), and one of the records of the evaluations so far.
"""

from __future__ import annotations

import hashlib
import math
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from phrasescore.errors import UserError
from phrasescore.tensor_file import DamagedError, TensorFile, open_tensors, write_tensors

CHECKPOINT = "checkpoint.safetensors"
_NETWORK, _OPTIMISER = "network.", "optimiser."
_OF_GROUPS: dict[str, tuple[type, ...]] = {"number": (int, float), "tensor": (Tensor,)}
_MOST_OF_OPTIMISER = 100
"""How many times as many numbers as a network has its optimiser may keep: Adam two, others what they like."""


@dataclass
class Progress:
    """Where a run stands."""

    update: int = 0
    epoch: int = 0
    batch: int = 0
    """Batches done in this pass."""
    seconds: float = 0.0
    best_loss: float | None = None
    best_update: int = 0
    evaluations_without_gain: int = 0
    loss_sum: float = 0.0
    """Loss, the terms it is summed over, examples and seconds since the last evaluation."""
    loss_terms: int = 0
    example_sum: int = 0
    second_sum: float = 0.0
    finished: str | None = None
    """Why the run ended, None while it goes on; not in the file, for a resumed run may have another budget."""

    @property
    def training_loss(self) -> float:
        """The mean over the terms since the last evaluation, not a number if there were none."""
        return self.loss_sum / self.loss_terms if self.loss_terms else math.nan


@dataclass(frozen=True)
class Records:
    """Which records of evaluations belong to a state: the first bytes of their file."""

    length: int
    sha256: str

    @classmethod
    def of(cls, content: bytes) -> Records:
        """Describe all that a file holds."""
        return cls(len(content), hashlib.sha256(content).hexdigest())


@dataclass(frozen=True)
class Checkpoint:
    """Everything a run needs to go on as if it had never stopped; the tensors are still in their file."""

    progress: Progress
    run: dict[str, Any]
    """What the run was started with; see `Trainer`."""
    records: Records
    _file: TensorFile = field(repr=False)

    def restore(self, network: nn.Module, optimiser: torch.optim.Optimizer) -> None:
        """Put the state back.

        Raises:
            DamagedError: it is that of another network, or no state of the optimiser.
        """
        now = {_NETWORK + name: tuple(tensor.shape) for name, tensor in network.state_dict().items()}
        numbers = {name: math.prod(shape) for name, shape in self._file.shapes.items()}
        most = _MOST_OF_OPTIMISER * (len(now) + sum(map(math.prod, now.values())))
        if now != {name: shape for name, shape in self._file.shapes.items() if name.startswith(_NETWORK)}:
            raise DamagedError
        if sum(number for name, number in numbers.items() if name.startswith(_OPTIMISER)) > most:
            raise DamagedError
        tensors = self._file.read()
        try:
            load_optimiser(optimiser, _with_prefix(tensors, _OPTIMISER))
        except (ValueError, KeyError, IndexError, RuntimeError) as error:
            raise DamagedError from error
        network.load_state_dict(_with_prefix(tensors, _NETWORK))


def _with_prefix(tensors: Mapping[str, Tensor], prefix: str) -> dict[str, Tensor]:
    return {name.removeprefix(prefix): tensor for name, tensor in tensors.items() if name.startswith(prefix)}


def optimiser_tensors(optimiser: torch.optim.Optimizer) -> dict[str, Tensor]:
    """Return the state of an optimiser by names: `3.exp_avg` of the fourth weight, `number.0.k` of the first group.

    Of a group that are its numbers and tensors (`tensor.0.sum`): some optimisers count their steps there.
    """
    state = optimiser.state_dict()
    found = {f"{index}.{key}": value for index, values in state["state"].items() for key, value in values.items()}
    for index, group in enumerate(state["param_groups"]):
        for kind, types in _OF_GROUPS.items():
            found |= {f"{kind}.{index}.{key}": value for key, value in group.items() if isinstance(value, types)}
    return {name: _as_tensor(value) for name, value in found.items()}


def load_optimiser(optimiser: torch.optim.Optimizer, tensors: Mapping[str, Tensor]) -> None:
    """Put the state of an optimiser back; see `optimiser_tensors`.

    Raises:
        ValueError, KeyError, IndexError, RuntimeError: it is not that of this one.
    """
    state: dict[int, dict[str, Tensor]] = {}
    groups = optimiser.state_dict()["param_groups"]
    for name, tensor in tensors.items():
        first, rest = name.split(".", 1)
        if first in _OF_GROUPS:
            index, key = rest.split(".", 1)
            groups[int(index)][key] = tensor.item() if first == "number" else tensor
        else:
            state.setdefault(int(first), {})[rest] = tensor
    optimiser.load_state_dict({"state": state, "param_groups": groups})


def _as_tensor(value: float | Tensor) -> Tensor:
    """Return a number as a tensor that holds all of its digits."""
    return torch.tensor(value, dtype=torch.float64) if isinstance(value, float) else torch.as_tensor(value)


def write_checkpoint(
    path: Path,
    network: nn.Module,
    optimiser: torch.optim.Optimizer,
    progress: Progress,
    run: dict[str, Any],
    records: Records,
) -> None:
    """Write the state of a running training, whole or not at all; see `Checkpoint`."""
    tensors = {_NETWORK + name: tensor for name, tensor in network.state_dict().items()}
    tensors |= {_OPTIMISER + name: tensor for name, tensor in optimiser_tensors(optimiser).items()}
    write_tensors(path, tensors, {"progress": asdict(progress), "run": run, "records": asdict(records)})


@contextmanager
def open_checkpoint(path: Path) -> Iterator[Checkpoint]:
    """Open the state of a training.

    Raises:
        UserError: it is damaged, which may turn out only while it is restored.
    """
    try:
        with open_tensors(path) as file:
            yield _read(file)
    except DamagedError as error:
        raise UserError(
            f"{path}: is damaged, so training cannot go on from it; copy it again, or start over with --restart"
        ) from error


def _read(file: TensorFile) -> Checkpoint:
    """Return what a file says of a run.

    Raises:
        DamagedError: it does not say it.
    """
    try:
        facts = file.facts
        progress, run, records = facts["progress"], facts["run"], facts["records"]
        checkpoint = Checkpoint(Progress(**progress), dict(run), Records(**records), file)
    except (TypeError, KeyError, ValueError, AttributeError, UserError) as error:
        raise DamagedError from error
    if not all(_is_right(getattr(checkpoint.progress, item.name), item.default) for item in fields(Progress)):
        raise DamagedError
    return checkpoint


def _is_right(value: object, default: object) -> bool:
    """Whether a value of `Progress` is of the kind of its default: a count, a number, or a number or nothing."""
    if isinstance(default, int):
        return isinstance(value, int) and 0 <= value <= sys.maxsize
    return (value is None and default is None) or (isinstance(value, float) and math.isfinite(value))
