"""Training an encoder-decoder on phrase pairs."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from phrasescore.device import Device
from phrasescore.nn.batch import PairBatch
from phrasescore.nn.encoder_decoder import EncoderDecoder
from phrasescore.pairs import PhrasePairs, batches_of_pass
from phrasescore.training.config import TrainingConfig
from phrasescore.training.evaluation import PairLoss, mean_loss
from phrasescore.training.task import Examples


@dataclass(frozen=True)
class PhrasePairTask:
    """Maximises the mean ln p(target | source) of phrase pairs (Eq. 4). Its examples are lines of a phrase table."""

    unit: ClassVar[str] = "pair"

    network: EncoderDecoder
    config: TrainingConfig
    device: Device
    table: PhrasePairs
    lines: Examples
    """The lines of the table to learn from."""
    held_out: PhrasePairs
    """Random pairs of the same table."""
    validation: PhrasePairs | None
    """Pairs of other sentences, if there are any."""

    @property
    def batches_per_pass(self) -> int:
        """How many batches `batches` yields."""
        return math.ceil(len(self.lines) / self.config.batch_size)

    def batches(self, number: int) -> Iterator[Examples]:
        """Yield the lines of each batch of a pass."""
        return batches_of_pass(self.table, self.lines, self.config.batch_size, self.config.seed, number)

    def loss(self, examples: Examples) -> Tensor:
        """Return the mean negative log-likelihood of some pairs, weighted."""
        pairs = self.table.take(examples)
        device = self.device.torch_device
        batch = PairBatch.apart(pairs.source, pairs.target).to(device)
        log_prob_I = self.network(batch)
        weight_P = torch.from_numpy(pairs.weight).to(device)
        loss: Tensor = -(log_prob_I * weight_P[batch.pair_I]).sum() / len(pairs)
        return loss

    def held_out_loss(self) -> PairLoss | None:
        """Return the loss on the held-out pairs."""
        return mean_loss(self.network, self.held_out, self.device) if len(self.held_out) else None

    def validation_loss(self) -> PairLoss | None:
        """Return the loss on the validation pairs."""
        return mean_loss(self.network, self.validation, self.device) if self.validation else None
