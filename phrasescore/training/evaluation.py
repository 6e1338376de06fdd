"""The loss of a network on pairs it does not learn from."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from phrasescore.device import Device
from phrasescore.nn.batch import PairBatch
from phrasescore.nn.encoder_decoder import EncoderDecoder
from phrasescore.pairs import PhrasePairs, batches_in_order

_BATCH = 1024


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
        return f"{self.per_pair:.3f} per pair, {self.per_word:.3f} per word"


@torch.inference_mode()
def mean_loss(network: EncoderDecoder, pairs: PhrasePairs, device: Device) -> PairLoss:
    """Return the mean loss over all pairs, each counted once."""
    total, symbols = 0.0, 0
    network.eval()
    with device.products():
        for lines in batches_in_order(pairs, _BATCH):
            some = pairs.take(lines)
            batch = PairBatch.apart(some.source, some.target).to(device.torch_device)
            total -= float(network(batch).double().sum())
            symbols += len(batch.symbol_I)
    network.train()
    return PairLoss(total / len(pairs), total / symbols)
