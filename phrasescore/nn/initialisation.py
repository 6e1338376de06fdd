"""Where the weights start.

Legend: V words of the target vocabulary, symbols included.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from phrasescore.nn.architecture import Initialisation
from phrasescore.nn.softmax import WordSoftmax

_GAUSSIAN = 0.01
"""Standard deviation of all weights but the recurrent ones (paper, section 4.1.1)."""
_EMBEDDING_SCALE = 0.1


@torch.no_grad()
def initialise(network: nn.Module, form: Initialisation) -> None:
    """Draw all weights from torch's random numbers; biases start at zero.

    Both forms start the recurrent matrices, linear layers called `recurrent...`, orthogonal (Saxe et al. 2014), each
    n x n block on its own.
    `cho2014` draws the others from a Gaussian of 0.01; `scaled` keeps the variance of each layer's outputs
    (Glorot and Bengio 2010), which saves the first thousands of updates.
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
    """Let the biases b of a softmax start at ln p(word), with one added to each count.

    From zero, the first hundreds of updates learn little else, and learn it in the wrong place: the biases move too
    slowly, so the readout becomes large and the same everywhere. Its tanh, and the gates whose states it reads, may be
    saturated then, and a network of whole sentences with a large vocabulary learns no more than frequencies.
    """
    if softmax.words.bias is not None:
        smoothed_V = count_V.double() + 1
        softmax.words.bias.copy_((smoothed_V / smoothed_V.sum()).log())
