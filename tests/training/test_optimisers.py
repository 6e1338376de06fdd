"""Optimisers, and their state in checkpoints."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load, save

from phrasescore.training import loop
from phrasescore.training.checkpoint import load_optimiser, optimiser_tensors
from phrasescore.training.loop import OPTIMISERS
from phrasescore.training.run import prepare
from phrasescore.training.settings import Settings
from phrasescore.training.training_config import TrainingConfig
from tests.training.runs import CPU


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


def test_groups_of_an_optimiser_are_kept() -> None:
    network = torch.nn.Linear(2, 1)
    optimiser = Counting(network.parameters(), lr=0.1)
    network(torch.ones(2)).backward()
    optimiser.step()
    optimiser.step()
    later = Counting(network.parameters(), lr=0.1)
    load_optimiser(later, load(save(optimiser_tensors(optimiser))))
    (group,) = later.param_groups
    assert (group["steps"], group["third"]) == (2, 1 / 3)
    # Torch casts per-weight state to the type of the weight.
    assert [float(values["third"]) for values in later.state.values()] == pytest.approx([1 / 3, 1 / 3])
    later.step()
    assert group["sum"].tolist() == [3, 3]
    assert group["norm"].tolist() == 3


def test_adadelta_is_the_paper_s() -> None:
    """Adadelta follows the paper: accumulate squared gradients, step, then accumulate squared steps."""
    layer = torch.nn.Linear(1, 1, bias=False)
    optimiser = OPTIMISERS["adadelta"](list(layer.parameters()), TrainingConfig(learning_rate=1.0))
    w, square_g, square_d = layer.weight.item(), 0.0, 0.0
    for g in (0.5, -2.0, 0.25):
        layer.weight.grad = torch.tensor([[g]])
        optimiser.step()
        square_g = 0.95 * square_g + 0.05 * g * g
        d = math.sqrt(square_d + 1e-6) / math.sqrt(square_g + 1e-6) * g
        square_d = 0.95 * square_d + 0.05 * d * d
        w -= d
        assert layer.weight.item() == pytest.approx(w, rel=1e-5)


@pytest.mark.parametrize("optimiser", ["adam", "adadelta"])
def test_averages_of_gradients_do_not_become_denormal_numbers(
    small_table: Path, tmp_path: Path, tiny_settings: Settings, optimiser: str
) -> None:
    """An update of denormal numbers takes ten times as long on a CPU, and Adam's averages would stay so."""
    training = replace(tiny_settings.training, optimiser=optimiser)
    trainer = prepare(small_table, tmp_path / "run", replace(tiny_settings, training=training), CPU)
    batches = itertools.cycle(trainer.task.batches(0))
    trainer._timed_update(next(batches))
    averages = [x for state in trainer.optimiser.state.values() for x in state.values() if x.dim()]
    for average in averages:
        average.fill_(1e-39)
    for _ in range(loop._LOOK_EVERY):
        trainer._timed_update(next(batches))
    trainer.folder.release()
    tiny = torch.cat([average[average.abs() < 1e-20].flatten() for average in averages])
    assert len(tiny) > 0
    assert (tiny == 0).all()
