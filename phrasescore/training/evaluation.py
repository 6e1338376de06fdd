"""The loss of a network on pairs it does not learn from.

Legend: P pairs, I predicted symbols of a batch (words and end symbols).
"""

from __future__ import annotations

from dataclasses import dataclass

import torch

from phrasescore.device import Device
from phrasescore.nn.batch import PairBatch
from phrasescore.nn.encoder_decoder import EncoderDecoder
from phrasescore.pairs import PhrasePairs
from phrasescore.perplexity import perplexity
from phrasescore.sentences import MeasuredLoss
from phrasescore.training.batches import batches_in_order

_BATCH, _SYMBOLS = 1024, 1 << 15
"""The most pairs at once, and their symbols were all as long as the longest."""


@dataclass(frozen=True)
class PairLoss:
    """Negative log-likelihood in nats, with teacher forcing."""

    per_pair: float
    per_word: float
    """Per predicted symbol: words and end symbols."""

    @property
    def per_example(self) -> float:
        """What is to fall."""
        return self.per_pair

    def __str__(self) -> str:
        return f"{self.per_pair:.3f} nats per pair ({self.per_word:.3f} per word)"


@dataclass(frozen=True)
class SentenceLoss:
    """Negative log-likelihood in nats, of words and end symbols, in two ways."""

    teacher_forced_per_word: float
    """-ln p(y_t | y_<t, x) with the words before of the reference: what perplexity means."""
    teacher_forced_perplexity: float
    free_running_per_word: float
    """With the words before that the network says itself, whatever they are: the figure of some tutorials."""
    free_running_perplexity: float
    bleu: float | None = None
    """BLEU of greedy translations, if asked for."""

    @property
    def per_example(self) -> float:
        """What is to fall."""
        return self.teacher_forced_per_word

    def __str__(self) -> str:
        bleu = "" if self.bleu is None else f", BLEU {self.bleu:.2f}"
        perplexities = (
            f"perplexity {self.teacher_forced_perplexity:.2f}, free-running {self.free_running_perplexity:.2f}"
        )
        return f"{self.per_example:.3f} nats per word ({perplexities}){bleu}"


class FreeRunningLoss(SentenceLoss):
    """The same where the second is the one that counts: for a network that is trained to go on from its own words."""

    @property
    def per_example(self) -> float:
        """What is to fall."""
        return self.free_running_per_word


_SENTENCE_LOSSES: dict[MeasuredLoss, type[SentenceLoss]] = {
    "teacher-forced": SentenceLoss,
    "free-running": FreeRunningLoss,
}


def mean_loss(network: EncoderDecoder, pairs: PhrasePairs, device: Device) -> PairLoss:
    """Return the mean loss over all pairs, each counted once."""
    total, symbols = _total_loss(network, pairs, device)
    return PairLoss(total / len(pairs), total / symbols)


def sentence_loss(
    network: EncoderDecoder, pairs: PhrasePairs, device: Device, measured: MeasuredLoss = "teacher-forced"
) -> SentenceLoss:
    """Return the mean loss per word over all pairs; `measured` is the one that is to fall."""
    forced, symbols = _total_loss(network, pairs, device)
    free, _ = _total_loss(network, pairs, device, teacher_forcing=0.0)
    per_word = forced / symbols, free / symbols
    return _SENTENCE_LOSSES[measured](per_word[0], perplexity(per_word[0]), per_word[1], perplexity(per_word[1]))


def _total_loss(
    network: EncoderDecoder, pairs: PhrasePairs, device: Device, teacher_forcing: float = 1.0
) -> tuple[float, int]:
    """Return the loss summed over all pairs, and their symbols."""
    network.eval()
    losses, symbols = zip(*batch_losses(network, pairs, device, teacher_forcing), strict=True)
    network.train()
    return sum(losses), sum(symbols)


@torch.inference_mode()
def batch_losses(
    network: EncoderDecoder,
    pairs: PhrasePairs,
    device: Device,
    teacher_forcing: float = 1.0,
    batch_size: int = _BATCH,
) -> list[tuple[float, int]]:
    """Return the loss, in nats, and the predicted symbols of each batch of pairs of similar lengths.

    Args:
        network: on its device, and set to evaluate.
        pairs: each is in one batch.
        device: where and how precisely to compute.
        teacher_forcing: 1 reads the words of the targets, 0 those that are most probable to the network itself.
        batch_size: the most pairs of a batch; fewer where they are long.
    """
    losses, symbols = [], []
    lengths_P = pairs.source.lengths + pairs.target.lengths + 2
    with device.products():
        for lines in batches_in_order(pairs, batch_size):
            rows = max(1, _SYMBOLS // int(lengths_P[lines].max()))
            for start in range(0, len(lines), rows):
                some = pairs.take(lines[start : start + rows])
                batch = PairBatch.apart(some.source, some.target)
                network.prepare(batch)
                losses.append(-network(batch.to(device.torch_device), teacher_forcing).double().sum())
                symbols.append(len(batch.symbol_I))
    return list(zip(torch.stack(losses).tolist(), symbols, strict=True))
