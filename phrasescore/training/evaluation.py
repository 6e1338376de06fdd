"""Measure the loss of a network on held-out or validation pairs.

Legend: P pairs, I predicted symbols of a batch (words and end symbols).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import NamedTuple

import torch

from phrasescore.device import Device
from phrasescore.log_probs import perplexity
from phrasescore.nn.batch import PairBatch
from phrasescore.nn.encoder_decoder import EncoderDecoder
from phrasescore.pairs import PhrasePairs
from phrasescore.parallel_text import MeasuredLoss
from phrasescore.training.batches import batches_in_order

_BATCH, _SYMBOLS = 1024, 1 << 15
"""Limits of a batch: pairs, and symbols including padding."""


@dataclass(frozen=True)
class PairLoss:
    """Negative log-likelihood in nats, with teacher forcing."""

    per_pair: float
    per_word: float
    """Per predicted symbol: words and end symbols."""

    @property
    def per_example(self) -> float:
        """Loss that selects the weights, in nats per example."""
        return self.per_pair

    def __str__(self) -> str:
        return f"{self.per_pair:.3f} nats per pair ({self.per_word:.3f} per word)"


@dataclass(frozen=True)
class SentenceLoss:
    """Negative log-likelihood in nats of words and end symbols, teacher-forced and free-running."""

    teacher_forced_per_word: float
    """-ln p(y_t | y_<t, x), where y_<t are reference words: the usual definition for perplexity."""
    teacher_forced_perplexity: float
    free_running_per_word: float
    """The same with the network's own predictions as y_<t, as some tutorials measure it."""
    free_running_perplexity: float
    measured: MeasuredLoss = "teacher-forced"
    """The loss that selects the weights; free-running for a network that is trained on its own predictions."""

    @property
    def per_example(self) -> float:
        """Loss that selects the weights, in nats per example."""
        return self.teacher_forced_per_word if self.measured == "teacher-forced" else self.free_running_per_word

    def __str__(self) -> str:
        perplexities = (
            f"perplexity {self.teacher_forced_perplexity:.2f}, free-running {self.free_running_perplexity:.2f}"
        )
        return f"{self.per_example:.3f} nats per word ({perplexities})"


class BatchTotal(NamedTuple):
    """Sums over a batch."""

    loss: float
    """Nats, the sum over all predicted symbols."""
    pairs: int
    symbols: int
    """Words and end symbols."""


def pair_loss(network: EncoderDecoder, batches: Iterable[PairBatch], device: Device) -> PairLoss:
    """Return the mean loss over all pairs, unweighted."""
    total = _total(network, batches, device)
    return PairLoss(total.loss / total.pairs, total.loss / total.symbols)


def sentence_loss(
    network: EncoderDecoder, pairs: PhrasePairs, device: Device, measured: MeasuredLoss = "teacher-forced"
) -> SentenceLoss:
    """Return the mean loss per word over all pairs; `measured` is the loss that selects the weights."""
    forced, free = (_total(network, in_batches(network, pairs), device, forcing) for forcing in (1.0, 0.0))
    teacher_forced, free_running = forced.loss / forced.symbols, free.loss / free.symbols
    return SentenceLoss(teacher_forced, perplexity(teacher_forced), free_running, perplexity(free_running), measured)


def _total(
    network: EncoderDecoder, batches: Iterable[PairBatch], device: Device, teacher_forcing: float = 1.0
) -> BatchTotal:
    """Return the sums over all batches."""
    network.eval()
    losses, pairs, symbols = zip(*batch_totals(network, batches, device, teacher_forcing), strict=True)
    network.train()
    return BatchTotal(sum(losses), sum(pairs), sum(symbols))


@torch.inference_mode()
def batch_totals(
    network: EncoderDecoder, batches: Iterable[PairBatch], device: Device, teacher_forcing: float = 1.0
) -> list[BatchTotal]:
    """Return the sums over each batch, of a network in evaluation mode on its device.

    `teacher_forcing` is 1 to feed the target words to the decoder, 0 to feed its own most probable words.
    """
    losses, sizes = [], []
    with device.products():
        for batch in batches:
            losses.append(-network(batch.to(device.torch_device), teacher_forcing).double().sum())
            sizes.append((batch.pairs, len(batch.symbol_I)))
    # Synchronise with the device once for all batches.
    return [BatchTotal(loss, *size) for loss, size in zip(torch.stack(losses).tolist(), sizes, strict=True)]


def in_batches(network: EncoderDecoder, pairs: PhrasePairs, batch_size: int = _BATCH) -> Iterator[PairBatch]:
    """Yield all pairs in batches of similar lengths; batches of long pairs are smaller."""
    lengths_P = pairs.source.lengths + pairs.target.lengths + 2
    for lines in batches_in_order(pairs, batch_size):
        rows = max(1, _SYMBOLS // int(lengths_P[lines].max()))
        for start in range(0, len(lines), rows):
            some = pairs.take(lines[start : start + rows])
            batch = PairBatch.apart(some.source, some.target)
            network.prepare(batch)
            yield batch
