"""Estimate the remaining training time before training begins."""

from __future__ import annotations

import time
from itertools import islice
from typing import Any

from phrasescore.training.loop import Trainer
from phrasescore.training.task import Examples

_PROBED = 8
"""Number of batches whose gradients are timed."""


def seconds_left(trainer: Trainer[Any]) -> float | None:
    """Return the estimated seconds until the budget is spent, None if there is no budget.

    The estimate takes a few seconds: it computes gradients of a few batches without updating the weights. All ranks
    must call it.
    """
    config, progress, budget, task = trainer.config, trainer.progress, trainer.budget, trainer.task
    left = [] if config.max_minutes is None else [60 * config.max_minutes - progress.seconds]
    updates = budget.updates_left(progress)
    if updates is not None:
        evaluations = updates / (config.evaluate_every or budget.batches_per_pass)
        measured = len(task.held_out) + len(task.validation or ())
        examples = updates * config.batch_size + evaluations * task.measuring * measured
        left.append(examples * _seconds_an_example(trainer) if updates else 0.0)
    return max(0.0, min(left)) if left else None


def _seconds_an_example(trainer: Trainer[Any]) -> float:
    """Time the gradients of a few batches of the current epoch, after one warm-up batch."""
    batches = list(islice(trainer.task.batches(trainer.progress.epoch), _PROBED))

    def learn(batch: Examples) -> None:
        with trainer.device.products():
            float(trainer.ranks.backward(trainer.network, trainer.task.loss, batch).mean)
        trainer.optimiser.zero_grad(set_to_none=True)

    learn(batches[0])
    started = time.monotonic()
    for batch in batches:
        learn(batch)
    return (time.monotonic() - started) / sum(map(len, batches))
