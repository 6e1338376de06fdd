"""The tasks of a `Trainer`: the interface, and training on phrase pairs, on sentences and on phrases in context.

Legend: I predicted symbols of all pairs of a batch (words and end symbols).
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sized
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, Protocol, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from phrasescore.aligned_phrases import AlignedPhrases, extract_phrases
from phrasescore.device import Device, on_device
from phrasescore.nn.batch import PairBatch
from phrasescore.nn.encoder_decoder import EncoderDecoder
from phrasescore.pairs import PhrasePairs
from phrasescore.parallel_text import MeasuredLoss
from phrasescore.training.batches import (
    SHORT,
    PairLoss,
    SentenceLoss,
    are_short,
    batches_of_epoch,
    in_batches,
    pair_loss,
    sample_of_epoch,
    sentence_loss,
)
from phrasescore.training.training_config import OptimisationConfig, TrainingConfig

Examples = NDArray[np.int64]
"""Indices of examples, such as lines of a phrase table or n-grams of a text."""


@dataclass(frozen=True)
class BatchLoss:
    """The loss on a training batch."""

    mean: Tensor
    """Mean loss with its gradient, in nats per term."""
    terms: int
    """Number of terms (pairs or words) in the mean; 0 if the batch has nothing to train on."""


class Loss(Protocol):
    """The loss on other examples: a dataclass, whose fields are written to `metrics.jsonl`, and its text to the log."""

    @property
    def per_example(self) -> float:
        """The loss that selects the weights, in nats per example."""
        ...


@dataclass(frozen=True)
class Task(ABC):
    """A kind of training. Examples are numbered, so that a run can be resumed in the middle of an epoch."""

    unit: ClassVar[str]
    """Name of an example, such as `pair` or `word`."""

    network: nn.Module
    """On its device, with its initial weights."""
    config: OptimisationConfig
    device: Device
    held_out: Sized
    validation: Sized | None

    @property
    @abstractmethod
    def batches_per_epoch(self) -> int:
        """Number of batches per epoch."""

    @abstractmethod
    def batches(self, epoch: int) -> Iterator[Examples]:
        """Yield the batches of an epoch; they depend only on its number."""

    @abstractmethod
    def loss(self, examples: Examples) -> BatchLoss:
        """Return the loss on a batch."""

    @abstractmethod
    def measure(self, data: Any) -> Loss:
        """Return the loss on `held_out` or `validation`; the argument is never empty."""


TaskT = TypeVar("TaskT", bound=Task)


@dataclass(frozen=True)
class EncoderDecoderTask(Task):
    """Common base of the tasks of encoder-decoders."""

    network: EncoderDecoder
    config: TrainingConfig

    @property
    def passes(self) -> int:
        """How often an update reads an example, each time with another dropout mask."""
        return 2 if self.config.r_drop else 1

    def symbol_log_probs(self, batch: PairBatch) -> Tensor:
        """Return ln p of each target symbol of a prepared batch, with gradients, [I]."""
        log_prob_I: Tensor = self.network(
            on_device(batch, self.device.torch_device),
            self.config.teacher_forcing,
            self.config.label_smoothing,
            self.config.r_drop,
        )
        return log_prob_I


@dataclass(frozen=True)
class PairTask(EncoderDecoderTask):
    """Common base. Examples are lines of a table or of parallel text."""

    held_out: PhrasePairs
    validation: PhrasePairs | None
    pairs: PhrasePairs
    lines: Examples

    def lines_of_epoch(self, epoch: int) -> Examples:
        """Return the lines of an epoch, equally many in each."""
        return self.lines

    @property
    def batches_per_epoch(self) -> int:
        return math.ceil(len(self.lines_of_epoch(0)) / self.config.batch_size)

    def batches(self, epoch: int) -> Iterator[Examples]:
        lines = self.lines_of_epoch(epoch)
        return batches_of_epoch(self.pairs, lines, self.config.batch_size, self.config.seed, epoch)

    def log_probs(self, examples: Examples) -> Tensor:
        """Return ln p of each target symbol, with gradients, [I]; with R-Drop, of each pair twice."""
        pairs = self.pairs.take(np.repeat(examples, self.passes))
        batch = PairBatch.apart(pairs.source, pairs.target)
        self.network.prepare(batch)
        return self.symbol_log_probs(batch)


@dataclass(frozen=True)
class PhrasePairTask(PairTask):
    """Maximises the mean ln p(target | source) of phrase pairs (Eq. 4). Its examples are lines of a phrase table."""

    unit: ClassVar[str] = "pair"

    @cached_property
    def _is_short(self) -> NDArray[np.bool_]:
        return are_short(self.pairs, self.lines)

    def lines_of_epoch(self, epoch: int) -> Examples:
        """Return all short pairs and a new random sample of the long pairs, which the decoder seldom uses."""
        if self.config.long_pairs == 1:
            return self.lines
        some = sample_of_epoch(self.lines[~self._is_short], self.config.long_pairs, self.config.seed, epoch)
        return np.concatenate((self.lines[self._is_short], some))

    def loss(self, examples: Examples) -> BatchLoss:
        return BatchLoss(-self.log_probs(examples).sum() / (self.passes * len(examples)), len(examples))

    def measure(self, pairs: PhrasePairs) -> PairLoss:
        return pair_loss(self.network, in_batches(self.network, pairs), self.device)


@dataclass(frozen=True)
class SentenceTask(PairTask):
    """Maximises the mean ln p per target word. Examples are lines of parallel text."""

    unit: ClassVar[str] = "sentence"

    measured: MeasuredLoss = "teacher-forced"

    def loss(self, examples: Examples) -> BatchLoss:
        log_prob_I = self.log_probs(examples)
        return BatchLoss(-log_prob_I.sum() / len(log_prob_I), len(log_prob_I))

    def measure(self, pairs: PhrasePairs) -> SentenceLoss:
        return sentence_loss(self.network, pairs, self.device, self.measured)


_MEASURED_AT_ONCE = 1024


@dataclass(frozen=True)
class ContextTask(EncoderDecoderTask):
    """Maximises the mean ln p(target phrase | source phrase, source sentence).

    Examples are visits to sentences, numbered across epochs. Each visit draws some phrase pairs of the sentence at
    random. The sentence is encoded once for all of them.
    """

    unit: ClassVar[str] = "sentence"

    held_out: AlignedPhrases
    validation: AlignedPhrases | None
    sentences: PhrasePairs
    lines: Examples

    @property
    def batches_per_epoch(self) -> int:
        return -(-len(self.lines) // self.config.batch_size)

    def batches(self, epoch: int) -> Iterator[Examples]:
        for lines in batches_of_epoch(self.sentences, self.lines, self.config.batch_size, self.config.seed, epoch):
            yield lines + epoch * len(self.sentences)

    def loss(self, examples: Examples) -> BatchLoss:
        found = extract_phrases(self.sentences.take(examples % len(self.sentences)))
        drawn = self.drawn(examples, found)
        if not len(drawn):
            # No phrase pair is consistent with these alignments.
            return BatchLoss(torch.zeros((), device=self.device.torch_device), 0)
        batch = _batch_of(found.take(drawn), self.network, self.passes)
        return BatchLoss(-self.symbol_log_probs(batch).sum() / batch.pairs, len(drawn))

    def drawn(self, examples: Examples, found: AlignedPhrases) -> NDArray[np.int64]:
        """Draw a limited number of pairs for each visit; long pairs are drawn less often.

        Draws depend only on the visit, not on the rest of the batch. Weighted sampling without replacement: draw an
        exponentially distributed number for each pair, with its weight as the rate, and take the smallest ones.
        """
        is_short = (found.source.lengths <= SHORT) & (found.target.lengths <= SHORT)
        pairs = np.bincount(found.source.sentence_S, minlength=len(examples))
        random = (np.random.default_rng([self.config.seed, 4, visit]) for visit in examples.tolist())
        waits = np.concatenate([one.exponential(size=number) for one, number in zip(random, pairs, strict=True)])
        order = np.lexsort((waits / np.where(is_short, 1.0, self.config.long_pairs), found.source.sentence_S))
        rank = np.arange(len(order)) - np.repeat(np.cumsum(pairs) - pairs, pairs)
        return order[rank < self.config.pairs_a_sentence]

    def measure(self, pairs: AlignedPhrases) -> PairLoss:
        starts = range(0, len(pairs), _MEASURED_AT_ONCE)
        some = (pairs.take(np.arange(start, min(start + _MEASURED_AT_ONCE, len(pairs)))) for start in starts)
        return pair_loss(self.network, (_batch_of(part, self.network) for part in some), self.device)


def _batch_of(pairs: AlignedPhrases, network: EncoderDecoder, passes: int = 1) -> PairBatch:
    """Return a batch of pairs, longest target first, each once or twice."""
    pairs = pairs.take(np.lexsort((-pairs.source.lengths, -pairs.target.lengths)))
    if passes == 2:
        pairs = AlignedPhrases(pairs.source.twice(), pairs.target.twice())
    batch = PairBatch.apart(pairs.source, pairs.target.alone())
    network.prepare(batch)
    return batch
