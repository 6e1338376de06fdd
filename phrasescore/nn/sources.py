"""Source phrases in the orders in which an encoder reads them.

Legend: S source phrases, I symbols of all of them, their end symbols included, N nodes of a prefix tree below its
start nodes, L symbols of the longest phrase.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from phrasescore.nn.prefix_tree import PrefixTree, keep_apart, merge_prefixes
from phrasescore.phrases import Phrases, offsets_of
from phrasescore.vocabulary import END


@dataclass(frozen=True)
class Reading:
    """One way to read the phrases: the tree of their prefixes in that order."""

    tree: PrefixTree
    starts: int
    """Start nodes of the tree; all hold the initial state."""
    node_I: Tensor
    """The node behind each symbol, in the order in which the symbols are written."""
    end_S: Tensor
    """The node behind the symbol of each phrase that is read last."""
    symbol_N: Tensor
    """A symbol that leads into each node; the only one, if the phrases are kept apart."""


@dataclass(frozen=True)
class SourceBatch:
    """Source phrases, each with its end symbol."""

    closed: Phrases
    shared: bool
    """Whether phrases with a common prefix share its nodes (scoring) or not (training)."""
    made: dict[Hashable, Any] = field(default_factory=dict, repr=False)
    """What was made of them, so that it is made once; it goes with them to a device."""

    @classmethod
    def of(cls, phrases: Phrases, *, shared: bool = True) -> SourceBatch:
        """Build from phrases without end symbols."""
        return cls(phrases.with_end(END), shared)

    def __len__(self) -> int:
        """Return S."""
        return len(self.closed)

    def reading(self, *, reverse: bool = False, backward: bool = False, shared: bool = True) -> Reading:
        """Return the tree of the phrases read in some order.

        Args:
            reverse: the words from last to first, then the end symbol (Sutskever et al. 2014).
            backward: that sequence from its end, the end symbol first.
            shared: False keeps the phrases apart even where they share prefixes otherwise.
        """
        shared = shared and self.shared
        key = reverse, backward, shared
        if key not in self.made:
            self.made[key] = self._read(reverse=reverse, backward=backward, shared=shared)
        reading: Reading = self.made[key]
        return reading

    def _read(self, *, reverse: bool, backward: bool, shared: bool) -> Reading:
        # Trees of phrases kept apart want the longest first.
        order_S = np.arange(len(self)) if shared else np.argsort(-self.closed.lengths, kind="stable")
        read_I, offsets = _read_order(self.closed, order_S, reverse=reverse, backward=backward)
        sequences = Phrases(self.closed.ids[read_I], offsets)
        starts = 1 if shared else len(self)
        tree = merge_prefixes(sequences, np.zeros(len(self), np.int64), starts) if shared else keep_apart(sequences)
        path_I = tree.path_I.numpy()
        node_I, end_S = np.empty_like(path_I), np.empty_like(order_S)
        node_I[read_I] = path_I
        end_S[order_S] = path_I[offsets[1:] - 1]
        symbol_N = np.zeros(len(tree.words_N), np.int64)
        symbol_N[path_I - starts] = read_I
        return Reading(tree, starts, *map(torch.from_numpy, (node_I, end_S, symbol_N)))

    def grid(self) -> tuple[Tensor, Tensor]:
        """Return the symbols of each phrase side by side as indices [S, L], and which of them are real [S, L]."""
        if "grid" not in self.made:
            lengths_S = self.closed.lengths
            position_L = np.arange(lengths_S.max())
            real_SL = position_L < lengths_S[:, None]
            symbol_SL = np.where(real_SL, self.closed.offsets[:-1, None] + position_L, 0)
            self.made["grid"] = torch.from_numpy(symbol_SL), torch.from_numpy(real_SL)
        grid: tuple[Tensor, Tensor] = self.made["grid"]
        return grid


def _read_order(
    closed: Phrases, order_S: NDArray[np.int64], *, reverse: bool, backward: bool
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the symbols in the order in which they are read, [I], phrases in a given order, and their offsets."""
    lengths_S = closed.lengths[order_S]
    offsets = offsets_of(lengths_S)
    length_I = np.repeat(lengths_S, lengths_S)
    position_I = np.arange(len(length_I)) - np.repeat(offsets[:-1], lengths_S)
    if backward:
        position_I = length_I - 1 - position_I
    if reverse:
        position_I = np.where(position_I < length_I - 1, length_I - 2 - position_I, position_I)
    return np.repeat(closed.offsets[order_S], lengths_S) + position_I, offsets
