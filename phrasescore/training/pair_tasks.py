"""Train an encoder-decoder on phrase pairs of a table, or on sentence pairs.

Legend: P pairs of a batch, I predicted symbols of all of them (words and end symbols).
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from phrasescore.nn.batch import PairBatch
from phrasescore.nn.encoder_decoder import EncoderDecoder
from phrasescore.pairs import PhrasePairs
from phrasescore.parallel_text import MeasuredLoss
from phrasescore.training.batches import are_short, batches_of_epoch, sample_of_epoch
from phrasescore.training.evaluation import PairLoss, SentenceLoss, in_batches, pair_loss, sentence_loss
from phrasescore.training.task import BatchLoss, Examples, Task
from phrasescore.transfer import on_device


@dataclass(frozen=True)
class PairTask(Task):
    """Common base. Examples are lines of a table or of parallel text."""

    network: EncoderDecoder
    held_out: PhrasePairs
    validation: PhrasePairs | None
    pairs: PhrasePairs
    """Pairs of all lines."""
    lines: Examples
    """Training lines."""

    def lines_of_epoch(self, epoch: int) -> Examples:
        """Return the lines of an epoch, equally many in each."""
        return self.lines

    @property
    def batches_per_epoch(self) -> int:
        """Number of batches per epoch."""
        return math.ceil(len(self.lines_of_epoch(0)) / self.config.batch_size)

    def batches(self, epoch: int) -> Iterator[Examples]:
        """Yield the lines of each batch of an epoch."""
        lines = self.lines_of_epoch(epoch)
        return batches_of_epoch(self.pairs, lines, self.config.batch_size, self.config.seed, epoch)

    def log_probs(self, examples: Examples) -> Tensor:
        """Return ln p of each target symbol times the weight of its pair, with gradients, [I]."""
        pairs = self.pairs.take(examples)
        batch = PairBatch.apart(pairs.source, pairs.target)
        self.network.prepare(batch)
        batch, weight_P = on_device((batch, torch.from_numpy(pairs.weight)), self.device.torch_device)
        log_prob_I: Tensor = self.network(batch, self.config.teacher_forcing)
        return log_prob_I * weight_P[batch.pair_I]


@dataclass(frozen=True)
class PhrasePairTask(PairTask):
    """Maximises the mean ln p(target | source) of phrase pairs (Eq. 4). Its examples are lines of a phrase table."""

    unit: ClassVar[str] = "pair"

    @cached_property
    def _is_short(self) -> NDArray[np.bool_]:
        return are_short(self.pairs, self.lines)

    def lines_of_epoch(self, epoch: int) -> Examples:
        """Return the lines of an epoch: all short pairs and a new random sample of the long pairs.

        Most pairs of a table are long and come from few sentences, but the decoder mostly uses short phrases.
        """
        if self.config.long_pairs == 1:
            return self.lines
        some = sample_of_epoch(self.lines[~self._is_short], self.config.long_pairs, self.config.seed, epoch)
        return np.concatenate((self.lines[self._is_short], some))

    def loss(self, examples: Examples) -> BatchLoss:
        """Return the weighted mean negative log-likelihood of a batch."""
        return BatchLoss(-self.log_probs(examples).sum() / len(examples), len(examples))

    def measure(self, pairs: PhrasePairs) -> PairLoss:
        """Return the mean loss, unweighted."""
        return pair_loss(self.network, in_batches(self.network, pairs), self.device)


@dataclass(frozen=True)
class SentenceTask(PairTask):
    """Maximises the mean ln p per target word. Examples are lines of parallel text."""

    unit: ClassVar[str] = "sentence"

    measured: MeasuredLoss = "teacher-forced"
    """The loss that selects the weights."""

    def loss(self, examples: Examples) -> BatchLoss:
        """Return the mean negative log-likelihood per word and end symbol of a batch."""
        log_prob_I = self.log_probs(examples)
        return BatchLoss(-log_prob_I.sum() / len(log_prob_I), len(log_prob_I))

    def measure(self, pairs: PhrasePairs) -> SentenceLoss:
        """Return the loss, teacher-forced and free-running."""
        return sentence_loss(self.network, pairs, self.device, self.measured)
