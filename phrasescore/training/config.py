"""How a network is trained, as data."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from phrasescore.configuration import option

Optimiser = Literal["adam", "adadelta"]
Schedule = Literal["constant", "linear", "cosine"]


@dataclass(frozen=True)
class TrainingConfig:
    """Optimiser, schedule, budget."""

    optimiser: Optimiser = option("adam", "adam, or adadelta as in the paper (rho 0.95, epsilon 1e-6)")
    learning_rate: float = option(1e-3, "learning rate after the warm-up; Adadelta takes 1")
    schedule: Schedule = option("cosine", "how the learning rate falls over the budget")
    warmup_updates: int = option(200, "updates over which the learning rate rises from zero")
    final_rate: float = option(0.02, "learning rate at the end, as a share of the highest")
    batch_size: int = option(512, "phrase pairs an update")
    clip: float = option(1.0, "largest norm of the gradient of the mean loss per pair")
    epochs: int = option(10, "passes over the pairs")
    max_updates: int | None = option(None, "updates after which to stop")
    max_minutes: float | None = option(None, "minutes of training after which to stop")
    patience: int = option(10, "evaluations without a better held-out loss after which to stop; 0 for never")
    evaluate_every: int = option(1000, "updates between evaluations on the held-out pairs")
    seed: int = option(1, "seed of the weights, the held-out pairs and the order of the batches")
