"""Checkpoints keep the complete state of any optimiser."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from phrasescore.training.checkpoint import Progress, Records, open_checkpoint, write_checkpoint


class Counting(torch.optim.SGD):
    """An optimiser with numbers and tensors in both its parameter groups and its per-weight state."""

    def step(self, closure: Callable[[], float] | None = None) -> Any:
        for group in self.param_groups:
            group["steps"] = group.get("steps", 0) + 1
            group["third"] = 1 / 3
            group["sum"] = group.get("sum", torch.zeros(2)) + 1
            group["norm"] = group.get("norm", torch.zeros(())) + 1
            for weight in group["params"]:
                self.state[weight]["third"] = 1 / 3
        return super().step()


def test_groups_of_an_optimiser_are_kept(tmp_path: Path) -> None:
    network = torch.nn.Linear(2, 1)
    optimiser = Counting(network.parameters(), lr=0.1)
    network(torch.ones(2)).backward()
    optimiser.step()
    optimiser.step()
    write_checkpoint(tmp_path / "state", network, optimiser, Progress(), {}, Records.of(b""))
    later = Counting(network.parameters(), lr=0.1)
    with open_checkpoint(tmp_path / "state") as checkpoint:
        checkpoint.restore(network, later)
    (group,) = later.param_groups
    assert (group["steps"], group["third"]) == (2, 1 / 3)
    # Torch casts per-weight state to the type of the weight.
    assert [float(values["third"]) for values in later.state.values()] == pytest.approx([1 / 3, 1 / 3])
    later.step()
    assert group["sum"].tolist() == [3, 3]
    assert group["norm"].tolist() == 3
