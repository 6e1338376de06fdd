"""The training budget: stopping criteria, progress, and the learning-rate schedule."""

from __future__ import annotations

import math
from dataclasses import dataclass

from phrasescore.errors import UsageError, spelled
from phrasescore.training.checkpoint import Progress
from phrasescore.training.training_config import BUDGET, TrainingConfig

_WARMUP, _WARMUP_SHARE = 200, 10
"""Default warm-up in updates, and the minimum ratio of training updates to warm-up updates."""


@dataclass(frozen=True)
class Budget:
    """Stopping criteria and learning-rate schedule for a given number of batches per epoch."""

    config: TrainingConfig
    batches_per_pass: int

    def check(self, *, is_measured: bool) -> None:
        """Check that training ends, and that the schedule has an effect.

        Args:
            is_measured: whether there are held-out or validation data, whose loss can stop training early.

        Raises:
            UsageError: training would never end, or the schedule would have no effect.
        """
        config, updates = self.config, self.updates
        if all(getattr(config, name) is None for name in BUDGET):
            wanted = f"{', '.join(map(spelled, sorted(BUDGET)))}: one must be given"
            if not is_measured:
                raise UsageError(
                    f"{wanted}, for nothing is held out whose loss could tell when to stop; or give "
                    "validation data, or hold out more"
                )
            if not config.patience:
                raise UsageError(f"{wanted}, for with `patience` 0 no loss ends the training; or set it")
            if config.schedule != "constant":
                raise UsageError(
                    f"`schedule` {config.schedule} has no end that the learning rate could fall to; give "
                    f"{', '.join(map(spelled, BUDGET))}, or set `schedule` to constant"
                )
        if updates is not None and (config.warmup_updates or 0) > updates:
            raise UsageError(
                f"`warmup_updates` is {config.warmup_updates:,} where the training has {updates:,}, and the learning "
                "rate would never be reached; give less"
            )

    @property
    def updates(self) -> int | None:
        """Total number of updates, None if the budget does not limit them."""
        passes = None if self.config.epochs is None else self.config.epochs * self.batches_per_pass
        return min((end for end in (self.config.max_updates, passes) if end is not None), default=None)

    def updates_left(self, progress: Progress) -> int | None:
        """Return the number of remaining updates, None if the budget does not limit them."""
        return None if self.updates is None else max(0, self.updates - progress.update)

    def passes(self, progress: Progress) -> float:
        """Return the number of epochs so far, as a fraction."""
        return progress.epoch + progress.batch / self.batches_per_pass

    def spent(self, progress: Progress) -> float:
        """Return the fraction of the budget that is spent, 0 to 1."""
        config, shares = self.config, [0.0]
        if config.epochs is not None:
            shares.append(self.passes(progress) / config.epochs)
        if config.max_updates is not None:
            shares.append(progress.update / config.max_updates)
        if config.max_minutes is not None:
            shares.append(progress.seconds / (60 * config.max_minutes))
        return min(1.0, max(shares))

    def learning_rate(self, progress: Progress) -> float:
        """Return the learning rate of the next update: warm-up, then decay over the budget."""
        warmup = min(1.0, (progress.update + 1) / self.warmup) if self.warmup else 1.0
        return self.config.learning_rate * warmup * self._fall(1.0 - self.spent(progress))

    @property
    def warmup(self) -> int:
        """Number of warm-up updates."""
        if self.config.warmup_updates is not None:
            return self.config.warmup_updates
        # Shorten the warm-up of a short training run.
        return _WARMUP if self.updates is None else min(_WARMUP, self.updates // _WARMUP_SHARE)

    def _fall(self, left: float) -> float:
        """Return the factor of the peak learning rate when the fraction `left` of the budget remains."""
        config = self.config
        if config.schedule == "constant":
            return 1.0
        if config.schedule == "linear":
            return config.final_rate + (1 - config.final_rate) * left
        return config.final_rate + (1 - config.final_rate) * 0.5 * (1 - math.cos(math.pi * left))

    def is_due(self, progress: Progress) -> bool:
        """Return whether an evaluation is due."""
        if self.config.evaluate_every:
            return progress.update % self.config.evaluate_every == 0
        return progress.batch == self.batches_per_pass

    def reason_to_end(self, progress: Progress) -> str | None:
        """Return why training ends now, None if it continues."""
        if self.config.patience and progress.evaluations_without_gain >= self.config.patience:
            return "the measured loss no longer falls"
        return "the budget is spent" if self.spent(progress) >= 1.0 else None
