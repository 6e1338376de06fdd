"""Training an encoder-decoder on phrase pairs."""

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
    """Pairs of other sentences, if there are any."""

    @cached_property
    def _short_and_long(self) -> tuple[Examples, Examples]:
        """The lines of pairs that every pass takes, and of those of which it takes a share.

        The decoder mostly uses short phrases, but most pairs of a table are long, and pieces of few sentences.
        """
        if self.config.long_pairs == 1:
            return self.lines, self.lines[:0]
        short = are_short(self.pairs, self.lines)
        return self.lines[short], self.lines[~short]

    @property
    def pairs_per_pass(self) -> int:
        """How many pairs a pass takes."""
        short, long = self._short_and_long
        return len(short) + math.ceil(self.config.long_pairs * len(long))

    def lines_of_pass(self, number: int) -> Examples:
        """Return the lines that a pass takes: all of short pairs, and of others a share, drawn anew."""
        short, long = self._short_and_long
        return np.concatenate((short, some_of_pass(long, self.config.long_pairs, self.config.seed, number)))

    def loss(self, examples: Examples) -> BatchLoss:
        """Return the mean negative log-likelihood of some pairs, weighted."""
        return BatchLoss(-self.log_probs(examples).sum() / len(examples), len(examples))

    def measure(self, pairs: PhrasePairs) -> PairLoss:
        """Return the mean loss on some pairs, each counted once."""
        return pair_loss(self.network, in_batches(self.network, pairs), self.device)
