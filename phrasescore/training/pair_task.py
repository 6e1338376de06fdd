"""Common base of training on phrase pairs and on sentences.

Legend: P pairs of a batch, I predicted symbols of all of them (words and end symbols), T steps of the longest target.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor
from torch.utils.checkpoint import checkpoint

from phrasescore.device import Device
from phrasescore.nn.batch import PairBatch
from phrasescore.nn.encoder_decoder import EncoderDecoder
from phrasescore.pairs import PhrasePairs
from phrasescore.training.batches import batches_of_pass
from phrasescore.training.task import Examples
from phrasescore.training.training_config import TrainingConfig
from phrasescore.transfer import on_device

_MOST_KEPT = {"cpu": 3 << 26, "cuda": 1 << 31}
"""Maximum number of stored activations of a batch; ordinary batches have fewer."""
_KEPT_A_UNIT = 16
"""Approximate number of stored activations per hidden unit and symbol."""


@dataclass(frozen=True)
class PairTask:
    """An encoder-decoder with training pairs. Examples are lines of a table or of parallel text."""

    network: EncoderDecoder
    config: TrainingConfig
    device: Device
    pairs: PhrasePairs
    """Pairs of all lines."""
    lines: Examples
    """Training lines."""
    held_out: PhrasePairs
    """Held-out pairs."""

    @property
    def pairs_per_pass(self) -> int:
        """Number of pairs per epoch."""
        return len(self.lines)

    def lines_of_pass(self, number: int) -> Examples:
        """Return the lines of an epoch."""
        return self.lines

    @property
    def batches_per_pass(self) -> int:
        """Number of batches per epoch."""
        return math.ceil(self.pairs_per_pass / self.config.batch_size)

    def batches(self, number: int) -> Iterator[Examples]:
        """Yield the lines of each batch of an epoch."""
        lines = self.lines_of_pass(number)
        return batches_of_pass(self.pairs, lines, self.config.batch_size, self.config.seed, number)

    def log_probs(self, examples: Examples) -> Tensor:
        """Return ln p of each target symbol times the weight of its pair, with gradients."""
        parts, draws_T = self._parts(examples), None
        if self.config.teacher_forcing < 1:
            # All parts feed the network's own words to the decoder in the same steps.
            offsets = self.pairs.target.offsets
            draws_T = torch.rand(int((offsets[examples + 1] - offsets[examples]).max()))
        if len(parts) == 1:
            return self._log_probs(*self._on_device(examples), draws_T)
        # Recomputation restores the dropout masks only on the devices of the tensors passed as arguments.
        return torch.cat(
            [checkpoint(self._log_probs, *self._on_device(part), draws_T, use_reentrant=False) for part in parts]
        )

    def _parts(self, examples: Examples) -> list[Examples]:
        """Cut a batch of long pairs into parts whose activations fit into memory one at a time.

        The activations of each part are recomputed in the backward pass (gradient checkpointing).
        """
        config = self.network.config
        source_P, target_P = (
            side.offsets[examples + 1] - side.offsets[examples] + 1 for side in (self.pairs.source, self.pairs.target)
        )
        kept_P = target_P * len(self.network.softmax.words.weight)
        kept_P += (source_P + target_P) * _KEPT_A_UNIT * config.hidden
        if config.has_attention:
            kept_P += source_P * target_P * config.hidden
        part_P = (np.cumsum(kept_P) - kept_P) // _MOST_KEPT[self.device.torch_device.type]
        return np.split(examples, np.flatnonzero(np.diff(part_P)) + 1)

    def _on_device(self, examples: Examples) -> tuple[PairBatch, Tensor]:
        """Return a batch on the device, and the weight of each pair, [P]."""
        pairs = self.pairs.take(examples)
        batch = PairBatch.apart(pairs.source, pairs.target)
        self.network.prepare(batch)
        return on_device((batch, torch.from_numpy(pairs.weight)), self.device.torch_device)

    def _log_probs(self, batch: PairBatch, weight_P: Tensor, draws_T: Tensor | None) -> Tensor:
        log_prob_I: Tensor = self.network(batch, self.config.teacher_forcing, draws_T)
        return log_prob_I * weight_P[batch.pair_I]
