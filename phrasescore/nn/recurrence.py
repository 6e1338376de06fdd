"""Run a recurrent unit down a prefix tree.

Legend: R start nodes, N nodes below them, n hidden size, g rows of the projections.
"""

from __future__ import annotations

import torch
from torch import Tensor

from phrasescore.nn.prefix_tree import PrefixTree
from phrasescore.nn.units import RecurrentUnit


def unroll(
    unit: RecurrentUnit, tree: PrefixTree, x_Ng: Tensor, h_Rn: Tensor, context_Ng: Tensor | None = None
) -> Tensor:
    """Return the states of all nodes, start nodes first, [R + N, n].

    Args:
        unit: the recurrent unit.
        tree: the prefixes.
        x_Ng: the projected inputs of the nodes below the start nodes.
        h_Rn: the states of the start nodes.
        context_Ng: the projected context of the same nodes.
    """
    levels = len(tree.sizes)
    x = x_Ng.split(tree.sizes)
    context = [None] * levels if context_Ng is None else context_Ng.split(tree.sizes)
    states, h_Bn = [h_Rn], h_Rn
    for level in range(levels):
        h_Bn = unit.step(x[level], h_Bn[tree.parents[level]], context[level])
        states.append(h_Bn)
    return torch.cat(states)
