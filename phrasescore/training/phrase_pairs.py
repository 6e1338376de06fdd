"""Train an encoder-decoder on phrase pairs."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

import numpy as np

from phrasescore.pairs import PhrasePairs
from phrasescore.training.batches import are_short, some_of_pass
from phrasescore.training.evaluation import PairLoss, in_batches, pair_loss
from phrasescore.training.pair_task import PairTask
from phrasescore.training.task import BatchLoss, Examples


@dataclass(frozen=True)
class PhrasePairTask(PairTask):
    """Maximises the mean ln p(target | source) of phrase pairs (Eq. 4). Its examples are lines of a phrase table."""

    unit: ClassVar[str] = "pair"
    measuring: ClassVar[float] = 0.4

    validation: PhrasePairs | None
    """Validation pairs from other sentences, if any."""

    @cached_property
    def _short_and_long(self) -> tuple[Examples, Examples]:
        """Lines that are used in every epoch, and lines that each epoch samples.

        Most pairs of a table are long and come from few sentences, but the decoder mostly uses short phrases.
        """
        if self.config.long_pairs == 1:
            return self.lines, self.lines[:0]
        short = are_short(self.pairs, self.lines)
        return self.lines[short], self.lines[~short]

    @property
    def pairs_per_pass(self) -> int:
        """Number of pairs per epoch."""
        short, long = self._short_and_long
        return len(short) + math.ceil(self.config.long_pairs * len(long))

    def lines_of_pass(self, number: int) -> Examples:
        """Return the lines of an epoch: all short pairs and a new random sample of the long pairs."""
        short, long = self._short_and_long
        return np.concatenate((short, some_of_pass(long, self.config.long_pairs, self.config.seed, number)))

    def loss(self, examples: Examples) -> BatchLoss:
        """Return the weighted mean negative log-likelihood of a batch."""
        return BatchLoss(-self.log_probs(examples).sum() / len(examples), len(examples))

    def measure(self, pairs: PhrasePairs) -> PairLoss:
        """Return the mean loss, unweighted."""
        return pair_loss(self.network, in_batches(self.network, pairs), self.device)
