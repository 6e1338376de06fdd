"""Initialisation of the weights.

Legend: V words of the target vocabulary, symbols included.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from phrasescore.nn.architecture import Initialisation
from phrasescore.nn.softmax import WordSoftmax

_GAUSSIAN = 0.01
"""Standard deviation of all but the recurrent weights (paper, section 4.1.1)."""
_EMBEDDING_SCALE = 0.1


@torch.no_grad()
def initialise(network: nn.Module, form: Initialisation) -> None:
    """Draw all weights from torch's global generator, and set biases to zero.

    Each n x n block of the recurrent matrices, which are linear layers named `recurrent...`, is orthogonal (Saxe et al.
    2014). `cho2014` draws the other weights from a Gaussian of 0.01; `scaled` keeps the variance of each layer's
    outputs (Glorot and Bengio 2010), which saves the first thousands of updates.
    """
    for module in network.modules():
        if isinstance(module, nn.Linear):
            if form == "cho2014":
                nn.init.normal_(module.weight, std=_GAUSSIAN)
            else:
                nn.init.xavier_uniform_(module.weight)
            if module.bias is not None:
                nn.init.zeros_(module.bias)
        elif isinstance(module, nn.Embedding):
            nn.init.normal_(module.weight, std=_GAUSSIAN if form == "cho2014" else _EMBEDDING_SCALE)
    for name, module in network.named_modules():
        if isinstance(module, nn.Linear) and name.rpartition(".")[2].startswith("recurrent"):
            for block in module.weight.split(module.in_features):
                nn.init.orthogonal_(block)


@torch.no_grad()
def start_at_frequencies(softmax: WordSoftmax, count_V: Tensor) -> None:
    """Set the biases of a softmax to ln p(word), with add-one smoothing.

    From zero, the first hundreds of updates learn the word frequencies in the wrong layer: the biases change too
    slowly, so the readout becomes large and constant. This can saturate its tanh and the gates below it, and a network
    of whole sentences with a large vocabulary then never learns more than frequencies.
    """
    if softmax.words.bias is not None:
        smoothed_V = count_V.double() + 1
        softmax.words.bias.copy_((smoothed_V / smoothed_V.sum()).log())
