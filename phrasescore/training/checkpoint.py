"""The state of a training run as one file, so that it can never be half of two states."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save
from torch import Tensor, nn

from phrasescore.documents import parse_json
from phrasescore.errors import UserError
from phrasescore.files import open_regular, write_atomically

CHECKPOINT = "checkpoint.safetensors"
_NETWORK, _OPTIMISER = "network.", "optimiser."


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


@dataclass(frozen=True)
class Checkpoint:
    """Everything a run needs to go on as if it had never stopped."""

    progress: Progress
    run: dict[str, Any]
    """What the run was started with; see `Trainer`."""
    tensors: dict[str, Tensor] = field(repr=False)

    @classmethod
    def capture(
        cls, network: nn.Module, optimiser: torch.optim.Optimizer, progress: Progress, run: dict[str, Any]
    ) -> Checkpoint:
        """Take the state of a running training."""
        tensors = {_NETWORK + name: tensor for name, tensor in network.state_dict().items()}
        for index, state in optimiser.state_dict()["state"].items():
            tensors |= {f"{_OPTIMISER}{index}.{name}": torch.as_tensor(value) for name, value in state.items()}
        return cls(progress, run, tensors)

    def restore(self, network: nn.Module, optimiser: torch.optim.Optimizer) -> None:
        """Put the state back."""
        network.load_state_dict(self._with_prefix(_NETWORK))
        saved: dict[int, dict[str, Tensor]] = {}
        for name, tensor in self._with_prefix(_OPTIMISER).items():
            index, key = name.split(".", 1)
            saved.setdefault(int(index), {})[key] = tensor
        optimiser.load_state_dict({"state": saved, "param_groups": optimiser.state_dict()["param_groups"]})

    def _with_prefix(self, prefix: str) -> dict[str, Tensor]:
        return {name.removeprefix(prefix): tensor for name, tensor in self.tensors.items() if name.startswith(prefix)}

    def save(self, path: Path) -> None:
        """Write the file, whole or not at all."""
        metadata = {"progress": json.dumps(asdict(self.progress)), "run": json.dumps(self.run)}
        tensors = {name: tensor.contiguous() for name, tensor in self.tensors.items()}
        write_atomically(path, save(tensors, metadata))

    @classmethod
    def load(cls, path: Path) -> Checkpoint:
        """Read the file.

        Raises:
            UserError: it is damaged.
        """
        remedy = "remove the file to start anew"
        open_regular(path).close()
        try:
            with safe_open(path, "pt") as stream:
                tensors = {name: stream.get_tensor(name) for name in stream.keys()}  # noqa: SIM118
                metadata = stream.metadata() or {}
            progress, run = (parse_json(metadata[key], str(path), remedy) for key in ("progress", "run"))
            # The first checkpoints counted every loss as many times as the batch has examples.
            progress.setdefault("loss_terms", progress["example_sum"])
            return cls(Progress(**progress), run, tensors)
        except (SafetensorError, TypeError, KeyError, ValueError) as error:
            raise UserError(f"{path}: is damaged, so training cannot go on from it; {remedy}") from error
