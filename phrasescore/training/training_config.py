"""Configuration of training, and the budget and learning-rate schedule that follow from it."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any, Literal

from phrasescore.configuration import Section, option, setting
from phrasescore.errors import UsageError, arg_name
from phrasescore.plugins import loaded_plugins

if TYPE_CHECKING:
    from phrasescore.training.checkpoint import TrainingProgress

Schedule = Literal["constant", "linear", "cosine"]
BUDGET = {"epochs", "max_updates", "max_minutes"}
_MAY_CHANGE = BUDGET | {
    *("warmup_updates", "evaluate_every", "patience"),
    # The vocabularies show the content of the corpora.
    *("source_corpus", "target_corpus"),
}
_WARMUP, _WARMUP_SHARE = 200, 10
"""Default warm-up in updates, and the minimum ratio of training updates to warm-up updates."""


@dataclass(frozen=True)
class OptimisationConfig:
    """Batches, optimiser, schedule and budget."""

    optimiser: str = setting("adam", "adam, or adadelta as in the paper (rho 0.95, epsilon 1e-6)")
    learning_rate: float = option(
        1e-3, "learning rate after the warm-up; Adadelta takes 1", minimum=1e-12, maximum=1000
    )
    schedule: Schedule = setting("cosine", "how the learning rate decays over the budget")
    warmup_updates: int | None = setting(
        None,
        "updates over which the learning rate rises from zero (if it is not given: 200, or a tenth of all updates if "
        "that is less); a tenth of `max_minutes` ends it, too",
        minimum=0,
    )
    final_rate: float = setting(0.02, "learning rate at the end, as a share of the highest", minimum=0, maximum=1)
    batch_size: int = option(
        512,
        "maximum number of examples per update: phrase pairs, sentence pairs or, for language models, words",
        minimum=1,
    )
    sampled_words: int = setting(
        0,
        "words from which an update on a CPU estimates the sum of the softmax: three quarters of them the most "
        "frequent words, the others a random sample (after Jean et al. 2015); 0: all words. A GPU uses all words",
        minimum=0,
    )
    clip: float = setting(
        1.0,
        "maximum norm of the gradient of the mean loss (for sentences, per word); 0: no limit",
        minimum=0,
        maximum=1e12,
    )
    epochs: int | None = option(None, "epochs after which to stop", minimum=1)
    max_updates: int | None = option(None, "updates after which to stop", minimum=1)
    max_minutes: float | None = option(None, "minutes of training after which to stop", minimum=0.001, maximum=1e7)
    patience: int = setting(10, "evaluations without a better loss after which to stop; 0 for never", minimum=0)
    evaluate_every: int = option(1000, "updates between evaluations; 0: evaluate at the end of each epoch", minimum=0)
    seed: int = option(1, "seed of all random numbers of the training", minimum=0, maximum=(1 << 32) - 1)

    def without_effect(self) -> dict[str, str]:
        """Return the settings that have no effect, and why."""
        return {"final_rate": "with `schedule` constant"} if self.schedule == "constant" else {}


@dataclass(frozen=True)
class TrainingConfig(OptimisationConfig):
    """How encoder-decoders are trained: also the sampling of pairs, and the loss."""

    max_updates: int | None = option(
        None, "updates after which to stop; auto: by the size of the data", minimum=1, auto=True
    )
    evaluate_every: int = option(
        1000,
        "updates between evaluations; 0: evaluate at the end of each epoch; auto: 20 evaluations in the training",
        minimum=0,
        auto=True,
    )
    long_pairs: float = setting(
        1.0,
        "share of the pairs of more than 4 words on a side that each epoch samples (phrase tables); in context, how "
        "often a long pair is sampled relative to a short one",
        minimum=0.001,
        maximum=1,
    )
    pairs_a_sentence: int = setting(
        4, "phrase pairs that each visit to a sentence samples (in context only)", minimum=1
    )
    teacher_forcing: float = setting(
        1.0,
        "share of the decoding steps in training that read the reference word; the other steps read the network's most "
        "probable word. All sentences of a batch have the same choice at a step",
        minimum=0,
        maximum=1,
    )
    label_smoothing: float = setting(
        0.0,
        "label smoothing: share of the probability of each target word that the training loss spreads evenly over all "
        "words",
        minimum=0,
        maximum=0.99,
    )
    r_drop: float = setting(
        0.0,
        "weight of R-Drop (Liang et al. 2021): each update reads its examples twice with different dropout, and the "
        "loss includes the divergence of the two predictions over all words. An update takes two to three times as "
        "long; 0: no R-Drop",
        minimum=0,
        maximum=100,
    )


def fixed_values(*sections: Section) -> dict[str, Any]:
    """Return the settings and plugins that must be equal for a run to be resumed, as JSON values."""
    values = {item.name: getattr(section, item.name) for section in sections for item in fields(section)}
    fixed = {key: value for key, value in values.items() if key not in _MAY_CHANGE}
    if plugins := loaded_plugins():
        fixed["plugins"] = sorted(plugins.values())
    return dict(json.loads(json.dumps(fixed, default=str)))


@dataclass(frozen=True)
class Budget:
    """Stopping criteria and learning-rate schedule for a given number of batches per epoch."""

    config: OptimisationConfig
    batches_per_epoch: int

    def check(self, *, is_measured: bool) -> None:
        """Check that training ends and learns; `is_measured` tells whether a held-out or validation loss can end it."""
        config = self.config
        ends_by_loss = is_measured and config.patience and config.schedule == "constant"
        if all(getattr(config, name) is None for name in BUDGET) and not ends_by_loss:
            raise UsageError(
                f"{', '.join(map(arg_name, sorted(BUDGET)))}: one must be given; without a budget, only a held-out "
                "loss can end a training, with `schedule` constant and `patience` above 0"
            )
        if self.updates is not None and self.warmup > self.updates:
            raise UsageError(
                f"`warmup_updates`: is {self.warmup:,}, but the training has {self.updates:,} updates, so it never "
                "reaches the learning rate; give less"
            )

    @property
    def updates(self) -> int | None:
        """Total number of updates, None if the budget does not limit them."""
        in_epochs = None if self.config.epochs is None else self.config.epochs * self.batches_per_epoch
        return min((end for end in (self.config.max_updates, in_epochs) if end is not None), default=None)

    @property
    def warmup(self) -> int:
        if self.config.warmup_updates is not None:
            return self.config.warmup_updates
        # Shorten the warm-up of a short training run.
        return _WARMUP if self.updates is None else min(_WARMUP, self.updates // _WARMUP_SHARE)

    def epochs(self, progress: TrainingProgress) -> float:
        """Return the number of epochs so far, as a fraction."""
        return progress.epoch + progress.batch / self.batches_per_epoch

    def spent(self, progress: TrainingProgress) -> float:
        """Return the fraction of the budget that is spent, 0 to 1."""
        config, shares = self.config, [0.0]
        if config.epochs is not None:
            shares.append(self.epochs(progress) / config.epochs)
        if config.max_updates is not None:
            shares.append(progress.update / config.max_updates)
        if config.max_minutes is not None:
            shares.append(progress.seconds / (60 * config.max_minutes))
        return min(1.0, max(shares))

    def learning_rate(self, progress: TrainingProgress) -> float:
        """Return the learning rate of the next update: warm-up, then decay over the budget."""
        config, left = self.config, 1.0 - self.spent(progress)
        warmup = (progress.update + 1) / self.warmup if self.warmup else 1.0
        if config.max_minutes is not None:
            # The number of updates is unknown in advance, so the warm-up may also end by the clock.
            warmup = max(warmup, _WARMUP_SHARE * progress.seconds / (60 * config.max_minutes))
        warmup = min(1.0, warmup)
        decay = {"constant": 1.0, "linear": left, "cosine": 0.5 * (1 - math.cos(math.pi * left))}[config.schedule]
        return config.learning_rate * warmup * (config.final_rate + (1 - config.final_rate) * decay)

    def is_due(self, progress: TrainingProgress) -> bool:
        if self.config.evaluate_every:
            return progress.update % self.config.evaluate_every == 0
        return progress.batch == self.batches_per_epoch

    def reason_to_end(self, progress: TrainingProgress) -> str | None:
        """Return why training ends now, None if it continues."""
        if self.config.patience and progress.evaluations_without_gain >= self.config.patience:
            return "the measured loss no longer falls"
        return "the budget is spent" if self.spent(progress) >= 1.0 else None
