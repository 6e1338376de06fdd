"""Configuration of training."""

from __future__ import annotations

import json
from dataclasses import dataclass, fields
from typing import Any, Literal

from phrasescore.configuration import Section, option, setting
from phrasescore.plugins import loaded_plugins

Schedule = Literal["constant", "linear", "cosine"]
BUDGET = {"epochs", "max_updates", "max_minutes"}
_FOLLOW_BUDGET = {"warmup_updates", "evaluate_every"}
_MAY_CHANGE = BUDGET | _FOLLOW_BUDGET | {"patience", "bleu_sentences", "source_corpus", "target_corpus"}
"""Settings that may differ when a run is resumed. Names of corpora may differ: the vocabularies show their content."""


@dataclass(frozen=True)
class TrainingConfig:
    """Optimiser, schedule, budget."""

    optimiser: str = setting("adam", "adam, or adadelta as in the paper (rho 0.95, epsilon 1e-6)")
    learning_rate: float = option(
        1e-3, "learning rate after the warm-up; Adadelta takes 1", minimum=1e-12, maximum=1000
    )
    schedule: Schedule = setting("cosine", "how the learning rate falls over the budget")
    warmup_updates: int | None = setting(
        None,
        "updates over which the learning rate rises from zero (if it is not given: 200, or a tenth of all updates if "
        "that is less)",
        minimum=0,
    )
    final_rate: float = setting(0.02, "learning rate at the end, as a share of the highest", minimum=0, maximum=1)
    batch_size: int = option(
        512, "the most examples of an update: pairs of phrases or of sentences, for `lm` words", minimum=1
    )
    long_pairs: float = setting(
        1.0,
        "share of the pairs of more than 4 words on a side that a pass takes, others in each pass (phrase tables, and "
        "in context how often one is drawn where a short one is drawn once)",
        minimum=0.001,
        maximum=1,
    )
    pairs_a_sentence: int = setting(
        4, "phrase pairs that are drawn from a sentence when a pass comes to it (in context only)", minimum=1
    )
    teacher_forcing: float = setting(
        1.0,
        "share of the steps in training that go on from the words of the target; the others go on from the word most "
        "probable to the network, all sentences alike that are computed together (encoder-decoders only)",
        minimum=0,
        maximum=1,
    )
    clip: float = setting(
        1.0, "largest norm of the gradient of the mean loss (of sentences per word); 0 for any", minimum=0, maximum=1e12
    )
    epochs: int | None = option(None, "epochs after which to stop", minimum=1)
    max_updates: int | None = option(
        None, "updates after which to stop; auto: by the size of the data", minimum=1, auto=True
    )
    max_minutes: float | None = option(None, "minutes of training after which to stop", minimum=0.001, maximum=1e7)
    patience: int = setting(10, "evaluations without a better loss after which to stop; 0 for never", minimum=0)
    evaluate_every: int = option(
        1000,
        "updates between evaluations on the held-out data; 0: one at the end of each epoch; auto: 20 in the training",
        minimum=0,
        auto=True,
    )
    seed: int = option(
        1, "seed of the weights, the held-out data and the order of the batches", minimum=0, maximum=(1 << 32) - 1
    )


def fixed_values(*sections: Section) -> dict[str, Any]:
    """Return the settings and plugins that must be equal for a run to be resumed, as JSON values."""
    values = {item.name: getattr(section, item.name) for section in sections for item in fields(section)}
    fixed = {key: value for key, value in values.items() if key not in _MAY_CHANGE}
    if plugins := loaded_plugins():
        fixed["plugins"] = sorted(plugins.values())
    return dict(json.loads(json.dumps(fixed, default=str)))
