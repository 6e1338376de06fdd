"""Attention weights of given pairs.

Legend: I predicted symbols, B rows of one step, L symbols of the longest source phrase.
"""

from __future__ import annotations

import torch
from torch import Tensor

from phrasescore.nn.batch import PairBatch
from phrasescore.nn.encoder_decoder import EncoderDecoder


@torch.inference_mode()
def attention_weights(network: EncoderDecoder, batch: PairBatch) -> Tensor:
    """Return the attention weights of each predicted symbol including the end symbol, [I, L]."""
    steps = network.decoder.predictions(batch, network.encoder(batch.sources))
    return torch.cat([attention_BL for _, _, attention_BL in steps if attention_BL is not None])[batch.node_I]
