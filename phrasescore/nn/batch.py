"""A batch of phrase pairs as the encoder-decoder wants it.

Legend: P pairs, S source phrases, R start nodes of the decoder, A all its nodes, I predicted symbols (words
and end symbols).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from phrasescore.nn.prefix_tree import PrefixTree, keep_apart, merge_prefixes, rounded_up
from phrasescore.phrases import Phrases
from phrasescore.vocabulary import END


@dataclass(frozen=True)
class PairBatch:
    """What to encode, what to decode from it, and which symbols are predicted where."""

    source: PrefixTree
    """The source phrases with their end symbols."""
    source_starts: int
    """Start nodes of the source tree; all hold the initial state."""
    source_end_S: Tensor
    """The source node behind the end symbol of each source phrase."""
    target: PrefixTree
    """The target phrases, without end symbols."""
    target_starts: int
    """R, the start nodes of the target tree, each before the first word of some target phrases."""
    source_of_node_A: Tensor
    """The source phrase that each decoder node translates, start nodes first."""
    node_I: Tensor
    """The decoder node, start node or other, that predicts each symbol."""
    symbol_I: Tensor
    """The predicted symbols, pair after pair, each pair's words and then the end symbol."""
    pair_I: Tensor
    """The pair that each symbol belongs to."""
    pairs: int

    @classmethod
    def sharing(cls, sources: Phrases, source_of_pair: NDArray[np.int64], targets: Phrases) -> PairBatch:
        """Build for scoring: each distinct source and each of its distinct target prefixes once.

        Args:
            sources: the distinct source phrases, without end symbols.
            source_of_pair: for each pair the index of its source.
            targets: the target phrase of each pair, without end symbols.
        """
        # Filled up with copies of the last source, for the same reason as the levels of a prefix tree.
        filled = np.pad(np.arange(len(sources)), (0, rounded_up(len(sources)) - len(sources)), "edge")
        closed = sources.take(filled).with_end(END)
        source = merge_prefixes(closed, np.zeros(len(closed), np.int64), starts=1)
        target = merge_prefixes(targets, source_of_pair, starts=len(closed))
        return cls._assemble(source, 1, closed, target, len(closed), source_of_pair, source_of_pair, targets)

    @classmethod
    def apart(cls, sources: Phrases, targets: Phrases) -> PairBatch:
        """Build for training: every pair on its own.

        Args:
            sources: the source phrase of each pair, without end symbols.
            targets: the target phrase of each pair, without end symbols, longest first.
        """
        by_source = np.argsort(-sources.lengths, kind="stable")
        closed = sources.take(by_source).with_end(END)
        source_of_pair = np.empty(len(sources), np.int64)
        source_of_pair[by_source] = np.arange(len(sources))
        pairs = len(targets)
        target, start_of_pair = keep_apart(targets), np.arange(pairs)
        return cls._assemble(keep_apart(closed), pairs, closed, target, pairs, start_of_pair, source_of_pair, targets)

    @classmethod
    def _assemble(
        cls,
        source: PrefixTree,
        source_starts: int,
        closed_sources: Phrases,
        target: PrefixTree,
        target_starts: int,
        start_of_pair: NDArray[np.int64],
        source_of_pair: NDArray[np.int64],
        targets: Phrases,
    ) -> PairBatch:
        closed = targets.with_end(END)
        pair_I = np.repeat(np.arange(len(targets)), closed.lengths)
        # y_1 is predicted in the start node, y_t in the node that y_{t-1} led into.
        first = np.zeros(len(closed.ids), np.bool_)
        first[closed.offsets[:-1]] = True
        node_I = np.empty(len(closed.ids), np.int64)
        node_I[first] = start_of_pair
        node_I[~first] = target.path_I.numpy()
        source_of_node_A = np.zeros(target_starts + len(target.words_N), np.int64)
        source_of_node_A[node_I] = source_of_pair[pair_I]
        return cls(
            source=source,
            source_starts=source_starts,
            source_end_S=source.path_I[torch.from_numpy(closed_sources.offsets[1:] - 1)],
            target=target,
            target_starts=target_starts,
            source_of_node_A=torch.from_numpy(source_of_node_A),
            node_I=torch.from_numpy(node_I),
            symbol_I=torch.from_numpy(closed.ids).long(),
            pair_I=torch.from_numpy(pair_I),
            pairs=len(targets),
        )

    def to(self, device: torch.device) -> PairBatch:
        """Return the batch on a device."""
        return PairBatch(
            source=self.source.to(device),
            source_starts=self.source_starts,
            source_end_S=self.source_end_S.to(device, non_blocking=True),
            target=self.target.to(device),
            target_starts=self.target_starts,
            source_of_node_A=self.source_of_node_A.to(device, non_blocking=True),
            node_I=self.node_I.to(device, non_blocking=True),
            symbol_I=self.symbol_I.to(device, non_blocking=True),
            pair_I=self.pair_I.to(device, non_blocking=True),
            pairs=self.pairs,
        )
