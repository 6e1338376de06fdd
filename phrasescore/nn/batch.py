"""A batch of phrase pairs for the encoder-decoder.

Legend: P pairs, S source phrases, R start nodes of the decoder, N nodes below them, A = R + N, I predicted symbols
(words and end symbols).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from phrasescore.nn.prefix_tree import PrefixTree, keep_apart, merge_prefixes, rounded_up
from phrasescore.nn.sources import SourceBatch
from phrasescore.phrases import Phrases, PhrasesInSentences
from phrasescore.transfer import on_device
from phrasescore.vocabulary import END


@dataclass(frozen=True)
class PairBatch:
    """Source phrases, the prefix tree of the targets, and the node that predicts each symbol."""

    sources: SourceBatch
    """The source phrases with their end symbols."""
    target: PrefixTree
    """The target phrases, without end symbols."""
    source_of_node_A: Tensor
    """The source phrase of each decoder node, start nodes first."""
    node_I: Tensor
    """The decoder node that predicts each symbol."""
    symbol_I: Tensor
    """The predicted symbols, pair by pair: the words of the target and then the end symbol."""
    pair_I: Tensor
    pairs: int

    @property
    def target_starts(self) -> int:
        """R = S: the start node of a target has the index of its source."""
        return len(self.sources)

    @classmethod
    def sharing(
        cls, sources: Phrases | PhrasesInSentences, source_of_pair: NDArray[np.int64], targets: Phrases
    ) -> PairBatch:
        """Build for scoring: compute each distinct source, and each distinct target prefix of it, once.

        Args:
            sources: the distinct source phrases, without end symbols.
            source_of_pair: the index of the source of each pair.
            targets: the target phrase of each pair, without end symbols.
        """
        # Padded with copies of the last source; see `rounded_up`.
        filled = np.pad(np.arange(len(sources)), (0, rounded_up(len(sources)) - len(sources)), "edge")
        target = merge_prefixes(targets, source_of_pair, starts=len(filled))
        return cls._assemble(SourceBatch.of(sources.take(filled)), target, source_of_pair, targets)

    @classmethod
    def apart(cls, sources: Phrases | PhrasesInSentences, targets: Phrases) -> PairBatch:
        """Build for training: pairs share nothing except the source sentences of phrases in context.

        Args:
            sources: the source phrase of each pair, without end symbols.
            targets: the target phrase of each pair, without end symbols, longest first.
        """
        return cls._assemble(
            SourceBatch.of(sources, shared=False), keep_apart(targets), np.arange(len(targets)), targets
        )

    @classmethod
    def _assemble(
        cls, sources: SourceBatch, target: PrefixTree, source_of_pair: NDArray[np.int64], targets: Phrases
    ) -> PairBatch:
        closed = targets.with_end(END)
        pair_I = np.repeat(np.arange(len(targets)), closed.lengths)
        # The start node predicts y_1, the node reached by y_{t-1} predicts y_t.
        first = np.zeros(len(closed.ids), np.bool_)
        first[closed.offsets[:-1]] = True
        node_I = np.empty(len(closed.ids), np.int64)
        node_I[first] = source_of_pair
        node_I[~first] = target.path_I.numpy()
        source_of_node_A = np.zeros(len(sources) + len(target.words_N), np.int64)
        source_of_node_A[node_I] = source_of_pair[pair_I]
        return cls(
            sources=sources,
            target=target,
            source_of_node_A=torch.from_numpy(source_of_node_A),
            node_I=torch.from_numpy(node_I),
            symbol_I=torch.from_numpy(closed.ids).long(),
            pair_I=torch.from_numpy(pair_I),
            pairs=len(targets),
        )

    def to(self, device: torch.device) -> PairBatch:
        """Return the batch on a device, with everything that `EncoderDecoder.prepare` has computed."""
        return on_device(self, device)
