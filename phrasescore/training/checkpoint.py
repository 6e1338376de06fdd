"""Save and load the state of a training run as one file, so that it can never be a mixture of two states.

The file has a digest of its content (see `tensor_file`) and a digest of the evaluation records so far.
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

from phrasescore.errors import UserError, spelled
from phrasescore.files.tensors import DamagedError, TensorFile, open_tensors, write_tensors

CHECKPOINT = "checkpoint.safetensors"
_NETWORK, _OPTIMISER = "network.", "optimiser."
_OF_GROUPS: dict[str, tuple[type, ...]] = {"number": (int, float), "tensor": (Tensor,)}
_MOST_OF_OPTIMISER = 100
"""Limit of the size of the optimiser state, relative to the number of weights. Adam keeps two numbers a weight."""


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


@dataclass(frozen=True)
class Records:
    """Size and digest of the evaluation records that belong to a state: the first bytes of their file."""

    length: int
    sha256: str

    @classmethod
    def of(cls, content: bytes) -> Records:
        """Return the description of the whole content of a file."""
        return cls(len(content), hashlib.sha256(content).hexdigest())


@dataclass(frozen=True)
class Checkpoint:
    """The complete state of a run. Its tensors are read from the file on demand."""

    progress: Progress
    run: dict[str, Any]
    """Fingerprint of the run; see `Trainer`."""
    records: Records
    _file: TensorFile = field(repr=False)

    def restore(self, network: nn.Module, optimiser: torch.optim.Optimizer) -> None:
        """Load the state into the network and the optimiser.

        Raises:
            DamagedError: the tensors do not match the network or the optimiser.
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
    """Return the state of an optimiser by name, such as `3.exp_avg` for the fourth weight.

    Numbers and tensors of parameter groups are included (`number.0.k`, `tensor.0.sum`), because some optimisers count
    their steps there.
    """
    state = optimiser.state_dict()
    found = {f"{index}.{key}": value for index, values in state["state"].items() for key, value in values.items()}
    for index, group in enumerate(state["param_groups"]):
        for kind, types in _OF_GROUPS.items():
            found |= {f"{kind}.{index}.{key}": value for key, value in group.items() if isinstance(value, types)}
    return {name: _as_tensor(value) for name, value in found.items()}


def load_optimiser(optimiser: torch.optim.Optimizer, tensors: Mapping[str, Tensor]) -> None:
    """Load the state of an optimiser; see `optimiser_tensors`.

    Raises:
        ValueError, KeyError, IndexError, RuntimeError: the state does not match the optimiser.
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
    """Return a number as a tensor without loss of precision."""
    return torch.tensor(value, dtype=torch.float64) if isinstance(value, float) else torch.as_tensor(value)


def write_checkpoint(
    path: Path,
    network: nn.Module,
    optimiser: torch.optim.Optimizer,
    progress: Progress,
    run: dict[str, Any],
    records: Records,
) -> None:
    """Write the state of a run atomically; see `Checkpoint`."""
    tensors = {_NETWORK + name: tensor for name, tensor in network.state_dict().items()}
    tensors |= {_OPTIMISER + name: tensor for name, tensor in optimiser_tensors(optimiser).items()}
    write_tensors(path, tensors, {"progress": asdict(progress), "run": run, "records": asdict(records)})


@contextmanager
def open_checkpoint(path: Path) -> Iterator[Checkpoint]:
    """Open a checkpoint.

    Raises:
        UserError: the file is damaged. The error may be raised as late as in `restore`.
    """
    try:
        with open_tensors(path) as file:
            yield _read(file)
    except DamagedError as error:
        raise UserError(
            f"{path}: is damaged, so training cannot go on from it; copy it again, or start over with "
            f"{spelled('restart')}"
        ) from error


def _read(file: TensorFile) -> Checkpoint:
    """Parse the metadata of a checkpoint.

    Raises:
        DamagedError: the metadata are missing or invalid.
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
    """Return whether a value of `Progress` has the type of its default."""
    if isinstance(default, int):
        return isinstance(value, int) and 0 <= value <= sys.maxsize
    return (value is None and default is None) or (isinstance(value, float) and math.isfinite(value))
