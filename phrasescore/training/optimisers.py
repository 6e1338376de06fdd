"""Optimisers by name, and the learning rate over the budget."""

from __future__ import annotations

import math

import torch
from torch import nn

from phrasescore.training.config import TrainingConfig


def make_optimiser(network: nn.Module, config: TrainingConfig) -> torch.optim.Optimizer:
    """Return the optimiser of the configuration.

    Adadelta is the paper's (rho 0.95, epsilon 1e-6, rate 1); PyTorch's defaults differ.
    """
    parameters = list(network.parameters())
    if config.optimiser == "adadelta":
        return torch.optim.Adadelta(parameters, lr=config.learning_rate, rho=0.95, eps=1e-6)
    return torch.optim.Adam(parameters, lr=config.learning_rate, fused=True)


def rate_factor(config: TrainingConfig, update: int, progress: float) -> float:
    """Return the factor on the learning rate.

    Args:
        config: warm-up, schedule, final rate.
        update: the number of the update, from 0.
        progress: the share of the budget that is spent, 0 to 1.
    """
    warmup = min(1.0, (update + 1) / config.warmup_updates) if config.warmup_updates else 1.0
    left = 1.0 - min(1.0, progress)
    if config.schedule == "constant":
        fall = 1.0
    elif config.schedule == "linear":
        fall = config.final_rate + (1 - config.final_rate) * left
    else:
        fall = config.final_rate + (1 - config.final_rate) * 0.5 * (1 - math.cos(math.pi * left))
    return warmup * fall
