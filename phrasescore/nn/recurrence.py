"""Run a recurrent unit down a prefix tree.

Legend: R start nodes, N nodes below them, s state size, g rows of the projections.
"""

from __future__ import annotations

import torch
from torch import Tensor

from phrasescore.nn.prefix_tree import PrefixTree, take_rows
from phrasescore.nn.units import RecurrentUnit


def unroll(unit: RecurrentUnit, tree: PrefixTree, x_Ng: Tensor, h_Rs: Tensor) -> Tensor:
    """Return the states of all nodes, start nodes first, [R + N, s].

    Args:
        unit: the recurrent unit.
        tree: the prefixes.
        x_Ng: the projected inputs of the nodes below the start nodes.
        h_Rs: the states of the start nodes.
    """
    states, h_Bs = [h_Rs], h_Rs
    for parents, x_Bg in zip(tree.parents, x_Ng.split(tree.sizes), strict=True):
        h_Bs = unit.step(x_Bg, take_rows(h_Bs, parents))
        states.append(h_Bs)
    return torch.cat(states)
