"""Choice cross-entropy as what a training is measured by: how well the network, as one more column, chooses."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np

from phrasescore.choice.comparison import hold_out, mean_loss
from phrasescore.choice.instances import DevPairs, DevText
from phrasescore.choice.problem import ChoiceProblem
from phrasescore.errors import UserError
from phrasescore.scoring.engine import EncodedPairs, Scorer
from phrasescore.sentences import ParallelText
from phrasescore.table.entry import LOWEST_LOG
from phrasescore.text import Say

MOST_OPTIONS = 50_000
"""A network scores so many in some seconds. On the captions of Multi30k, which have 90,000, the change by a network is
then off by 0.0003 nats, where a column that helps changes 0.005; with 20,000 by 0.0006."""
_COLUMN = "network"


@dataclass(frozen=True)
class ChoiceLoss:
    """Nats a choice on sources that the weights of the features were not fitted on."""

    per_choice: float
    without_network: float
    """The same without the network's column."""
    weight: float
    """Of the network's column."""

    @property
    def per_example(self) -> float:
        """What is to fall."""
        return self.per_choice

    def __str__(self) -> str:
        change = self.per_choice - self.without_network
        return f"{self.per_choice:.4f} per choice, {change:+.4f} by the network, whose weight is {self.weight:.3f}"


@dataclass(frozen=True)
class DevChoices:
    """Where choices are to be found."""

    dev: ParallelText | Path
    """Sentences that the table was not made from, tokenised as it is, and their translations; or a table of pairs."""
    language_model: Path | None = None
    """N-gram model of the target language, beside which the network is to help."""

    def read(self, table: str | Path, progress: Callable[[int, float | None], None], say: Say) -> ChoiceProblem:
        """Return some of the choices there are among the options of a table, whose columns are all in the base.

        `say` is told how many there are.

        Raises:
            UserError: see `ChoiceProblem.read`.
        """
        dev = DevPairs.read(self.dev) if isinstance(self.dev, Path) else DevText.read(self.dev)
        problem = ChoiceProblem.read(table, dev, None, self.language_model, progress)
        problem.describe(say)
        return problem.sample(MOST_OPTIONS)

    @property
    def files(self) -> dict[str, Path | None]:
        """What is read, by what it is."""
        if isinstance(self.dev, Path):
            dev = {"dev_table": self.dev}
        else:
            dev = {"dev_source": self.dev.source, "dev_reference": self.dev.target}
        return {**dev, "dev_language_model": self.language_model}


@dataclass(frozen=True)
class ChoiceMeasure:
    """Choices, which a network that is being trained is asked again and again how to make."""

    problem: ChoiceProblem
    scorer: Scorer
    """Of the network as it is at any time."""

    def __len__(self) -> int:
        return len(self.problem.instances)

    @cached_property
    def _pairs(self) -> EncodedPairs:
        options = self.problem.options
        sources = [options.sources[source] for source in options.source_O.tolist()]
        return self.scorer.encode(sources, options.targets)

    @cached_property
    def _without_network(self) -> float:
        problem = self.problem
        return mean_loss(hold_out(problem.base, problem.options, problem.instances).losses_I, problem.instances)

    def loss(self) -> ChoiceLoss:
        """Return the loss with the network as it is now; it is not a number if a score is none."""
        problem, network = self.problem, self.scorer.model.network
        network.eval()
        try:
            log_prob_O = self.scorer.score_encoded(self._pairs).log_prob
        except UserError:
            # The training says what that means for it.
            return ChoiceLoss(math.nan, self._without_network, math.nan)
        finally:
            network.train()
        features = {**problem.base, _COLUMN: np.maximum(log_prob_O, LOWEST_LOG)}
        found = hold_out(features, problem.options, problem.instances)
        return ChoiceLoss(mean_loss(found.losses_I, problem.instances), self._without_network, found.weights[_COLUMN])
