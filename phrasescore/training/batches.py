"""Split the data into training and held-out pairs, batch the pairs, and measure the loss on batches.

Legend: P pairs, I predicted symbols of a batch (words and end symbols).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from phrasescore.device import Device, on_device
from phrasescore.nn.batch import PairBatch
from phrasescore.nn.encoder_decoder import EncoderDecoder
from phrasescore.pairs import DataConfig, PhrasePairs
from phrasescore.parallel_text import MeasuredLoss

SHORT = 4
"""Maximum length in words of short phrases, which each epoch uses completely."""

_POOL_BATCHES = 64
"""Batches whose pairs are sorted by length together; see `batches_of_epoch`."""


def split_held_out(
    lines: NDArray[np.int64], config: DataConfig, seed: int
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the training lines and the randomly drawn held-out lines."""
    held_out = config.held_out_of(len(lines))
    shuffled = np.random.default_rng([seed, 0]).permutation(lines)
    return np.sort(shuffled[held_out:]), np.sort(shuffled[:held_out])


def hold_out_sentences(
    hashes: NDArray[np.uint64], number: int, seed: int
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return training and held-out lines; duplicates of held-out lines, with the same hash, are excluded from training.

    Held-out lines are drawn at random, those that occur once first, because frequent lines are needed for training.
    """
    _, which, times = np.unique(hashes, return_inverse=True, return_counts=True)
    shuffled = np.random.default_rng([seed, 0]).permutation(len(hashes))
    rarest_first = shuffled[times[which[shuffled]].argsort(kind="stable")]
    held_out = np.sort(rarest_first[:number])
    return np.flatnonzero(~np.isin(hashes, hashes[held_out])), held_out


def are_short(pairs: PhrasePairs, lines: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Return whether both sides of each line have at most four words."""
    sides = pairs.source.offsets, pairs.target.offsets
    source_is, target_is = (offsets[lines + 1] - offsets[lines] <= SHORT for offsets in sides)
    return source_is & target_is


def sample_of_epoch(lines: NDArray[np.int64], share: float, seed: int, epoch: int) -> NDArray[np.int64]:
    """Return a random sample of the lines, different in each epoch; its size is rounded up."""
    random = np.random.default_rng([seed, 3, epoch])
    return random.permutation(lines)[: math.ceil(share * len(lines))]


def batches_of_epoch(
    pairs: PhrasePairs, lines: NDArray[np.int64], batch_size: int, seed: int, epoch: int
) -> Iterator[NDArray[np.int64]]:
    """Yield the lines of each batch of one epoch, longest target first; they depend only on the seed and the epoch.

    The lines are shuffled and cut into the smallest number of batches, whose sizes differ by at most one: every batch
    changes the weights equally, so a small batch would give its pairs too much influence. Within each group of 64
    batches, the pairs are then sorted by both lengths, which reduces padding, and the batches are shuffled.
    """
    random = np.random.default_rng([seed, 1, epoch])
    order = random.permutation(lines)
    batches = math.ceil(len(order) / batch_size)
    bounds = np.arange(batches + 1) * len(order) // batches
    for first in range(0, batches, _POOL_BATCHES):
        cuts = bounds[first : first + _POOL_BATCHES + 1]
        pool = order[cuts[0] : cuts[-1]]
        pool = pool[_by_length(pairs, pool)]
        for index in random.permutation(len(cuts) - 1):
            begin, end = cuts[index : index + 2] - cuts[0]
            yield pool[begin:end]


def batches_in_order(pairs: PhrasePairs, batch_size: int) -> Iterator[NDArray[np.int64]]:
    """Yield all lines in batches of pairs of similar lengths, longest target first."""
    by_length = _by_length(pairs, np.arange(len(pairs)))
    for start in range(0, len(by_length), batch_size):
        yield by_length[start : start + batch_size]


def _by_length(pairs: PhrasePairs, lines: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the order that sorts lines by target length, then source length, longest first."""
    target_lengths = pairs.target.offsets[lines + 1] - pairs.target.offsets[lines]
    source_lengths = pairs.source.offsets[lines + 1] - pairs.source.offsets[lines]
    return np.lexsort((-source_lengths, -target_lengths))


_BATCH, _SYMBOLS = 1024, 1 << 15
"""Limits of a batch: pairs, and symbols including padding."""


@dataclass(frozen=True)
class PairLoss:
    """Negative log-likelihood in nats, with teacher forcing."""

    per_pair: float
    per_word: float

    @property
    def per_example(self) -> float:
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
    network.eval()
    losses, pairs, symbols = zip(*batch_totals(network, batches, device, teacher_forcing), strict=True)
    network.train()
    return BatchTotal(sum(losses), sum(pairs), sum(symbols))


@torch.inference_mode()
def batch_totals(
    network: EncoderDecoder, batches: Iterable[PairBatch], device: Device, teacher_forcing: float = 1.0
) -> list[BatchTotal]:
    """Return the sums over each batch; `teacher_forcing` is 1 to feed the target words, 0 the network's own words."""
    losses, sizes = [], []
    with device.products():
        for batch in batches:
            losses.append(-network(on_device(batch, device.torch_device), teacher_forcing).double().sum())
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


def perplexity(per_word: float) -> float:
    """Return exp of a loss, the mean -ln p of words in nats; infinity on overflow."""
    try:
        return math.exp(per_word)
    except OverflowError:
        return math.inf
