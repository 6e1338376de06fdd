"""Create optimisers by name."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import nn

from phrasescore.registry import Registry
from phrasescore.training.training_config import TrainingConfig

OptimiserBuilder = Callable[[list[nn.Parameter], TrainingConfig], torch.optim.Optimizer]
"""Creates an optimiser. Its state must consist of numbers and tensors, because checkpoints store it."""

OPTIMISERS: Registry[OptimiserBuilder] = Registry("optimiser")
register_optimiser = OPTIMISERS.register


def make_optimiser(network: nn.Module, config: TrainingConfig) -> torch.optim.Optimizer:
    """Create the optimiser of a configuration.

    Raises:
        UserError: no optimiser has this name.
    """
    return OPTIMISERS[config.optimiser](list(network.parameters()), config)


@register_optimiser("adam")
def _adam(parameters: list[nn.Parameter], config: TrainingConfig) -> torch.optim.Optimizer:
    return torch.optim.Adam(parameters, lr=config.learning_rate, fused=True)


@register_optimiser("adadelta")
def _adadelta(parameters: list[nn.Parameter], config: TrainingConfig) -> torch.optim.Optimizer:
    """Return Adadelta with the settings of the paper (rho 0.95, epsilon 1e-6, rate 1), not PyTorch's defaults."""
    return torch.optim.Adadelta(parameters, lr=config.learning_rate, rho=0.95, eps=1e-6)
