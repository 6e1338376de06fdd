from __future__ import annotations

import math

import pytest
import torch

from phrasescore.training.optimisers import make_optimiser
from phrasescore.training.training_config import TrainingConfig


def test_adadelta_is_the_paper_s() -> None:
    """Adadelta follows the paper: accumulate squared gradients, step, then accumulate squared steps."""
    layer = torch.nn.Linear(1, 1, bias=False)
    optimiser = make_optimiser(layer, TrainingConfig(optimiser="adadelta", learning_rate=1.0))
    w, square_g, square_d = layer.weight.item(), 0.0, 0.0
    for g in (0.5, -2.0, 0.25):
        layer.weight.grad = torch.tensor([[g]])
        optimiser.step()
        square_g = 0.95 * square_g + 0.05 * g * g
        d = math.sqrt(square_d + 1e-6) / math.sqrt(square_g + 1e-6) * g
        square_d = 0.95 * square_d + 0.05 * d * d
        w -= d
        assert layer.weight.item() == pytest.approx(w, rel=1e-5)
