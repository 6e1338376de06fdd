"""How a network is trained, as data."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from phrasescore.configuration import option

Schedule = Literal["constant", "linear", "cosine"]
BUDGET = {"epochs", "max_updates", "max_minutes"}


@dataclass(frozen=True)
class TrainingConfig:
    """Optimiser, schedule, budget."""

    optimiser: str = option("adam", "adam, or adadelta as in the paper (rho 0.95, epsilon 1e-6)")
    learning_rate: float = option(
        1e-3, "learning rate after the warm-up; Adadelta takes 1", minimum=1e-12, maximum=1000
    )
    schedule: Schedule = option("cosine", "how the learning rate falls over the budget")
    warmup_updates: int | None = option(
        None,
        "updates over which the learning rate rises from zero (if it is not given: 200, or a tenth of all updates if "
        "that is less)",
        minimum=0,
    )
    final_rate: float = option(0.02, "learning rate at the end, as a share of the highest", minimum=0, maximum=1)
    batch_size: int = option(
        512, "the most examples of an update: pairs of phrases or of sentences, for `lm` words", minimum=1
    )
    long_pairs: float = option(
        1.0,
        "share of the pairs of more than 4 words on a side that a pass takes, others in each pass (phrase tables, and "
        "in context how often one is drawn where a short one is drawn once)",
        minimum=0.001,
        maximum=1,
    )
    pairs_a_sentence: int = option(
        4, "phrase pairs that are drawn from a sentence when a pass comes to it (in context only)", minimum=1
    )
    teacher_forcing: float = option(
        1.0,
        "share of the steps in training that go on from the words of the target; the others go on from the word most "
        "probable to the network, all sentences alike that are computed together (encoder-decoders only)",
        minimum=0,
        maximum=1,
    )
    clip: float = option(
        1.0, "largest norm of the gradient of the mean loss (of sentences per word); 0 for any", minimum=0, maximum=1e12
    )
    epochs: int | None = option(None, "passes over the training data after which to stop", minimum=1)
    max_updates: int | None = option(None, "updates after which to stop", minimum=1)
    max_minutes: float | None = option(None, "minutes of training after which to stop", minimum=0.001, maximum=1e7)
    patience: int = option(10, "evaluations without a better loss after which to stop; 0 for never", minimum=0)
    evaluate_every: int = option(
        1000, "updates between evaluations on the held-out data; 0 for one at the end of each pass", minimum=0
    )
    seed: int = option(
        1, "seed of the weights, the held-out data and the order of the batches", minimum=0, maximum=(1 << 32) - 1
    )
