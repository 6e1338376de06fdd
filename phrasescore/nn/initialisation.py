"""Where the weights start."""

from __future__ import annotations

import torch
from torch import nn

from phrasescore.nn.architecture import Initialisation

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
