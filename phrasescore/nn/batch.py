"""Batches for the encoder-decoder: source phrases in the orders in which an encoder reads them, and phrase pairs.

In context the encoder reads the whole sentence. The symbol after the phrase, a word or the end symbol, takes the role
of the phrase's own end symbol, so a sentence that consists of the phrase has the same encoding as the phrase alone.

Legend: P pairs, S source phrases, L symbols of the longest phrase, Z sequences that are read for them, M symbols of the
longest sequence, I symbols (words and end symbols) of all sequences,
R start nodes of a prefix tree, N nodes below them, A = R + N.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from functools import wraps
from typing import Any, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from phrasescore.nn.prefix_tree import PrefixTree, keep_apart, merge_prefixes, rounded_up
from phrasescore.phrases import Phrases, PhrasesInSentences, offsets_of
from phrasescore.vocabulary import END

MethodT = TypeVar("MethodT", bound=Callable[..., Any])

_WIDEST_ROW = 8
"""Maximum nodes of a row of `NodeRows`; a wider row of few nodes has more padding."""
FARTHEST = 7
"""Largest distance in words that is distinguished: the maximum phrase length of training and of Moses."""


def _once(compute: MethodT) -> MethodT:
    """Cache the results of a method in `made` of the batch, with which they are copied to a device."""

    @wraps(compute)
    def cached(self: Any, **options: bool) -> Any:
        key = (compute.__name__, *options.items())
        if key not in self.made:
            self.made[key] = compute(self, **options)
        return self.made[key]

    return cached  # type: ignore[return-value]


@dataclass(frozen=True)
class Reading:
    """One reading order: the prefix tree of the phrases in that order."""

    tree: PrefixTree
    starts: int
    """R; all start nodes have the initial state."""
    node_I: Tensor
    """The node after each symbol, in text order."""
    end_S: Tensor
    """The node after the symbol of each phrase that is read last."""
    symbol_N: Tensor
    """A symbol on the edge into each node; the only one, if phrases share no nodes."""


@dataclass(frozen=True)
class Distances:
    """Distances in words, at most `FARTHEST`, of the symbols of `SourceBatch.grid`."""

    first_SL: Tensor
    """From the first word of the phrase."""
    following_SL: Tensor
    """To the symbol after the phrase."""
    length_S: Tensor


@dataclass(frozen=True)
class SourceBatch:
    """Source phrases, and the sequences that are read for them."""

    closed: Phrases
    """The sequences, with end symbols: the phrases themselves, or sentences."""
    shared: bool
    """Whether common prefixes share their nodes (scoring) or not (training)."""
    spans: PhrasesInSentences | None = None
    """The phrases in their sentences; None if they are read alone."""
    made: dict[Hashable, Any] = field(default_factory=dict, repr=False)
    """Cache of the results below."""

    @classmethod
    def of(cls, phrases: Phrases | PhrasesInSentences, *, shared: bool = True) -> SourceBatch:
        if isinstance(phrases, PhrasesInSentences):
            return cls(phrases.sentences.with_end(END), shared, phrases)
        return cls(phrases.with_end(END), shared)

    def __len__(self) -> int:
        return len(self.closed if self.spans is None else self.spans)

    def reading(self, *, reverse: bool = False, backward: bool = False, shared: bool = True) -> Reading:
        """Return a reading order; with `shared=False` phrases share no nodes even if the batch does.

        `reverse` reads the words last to first, then the end symbol (Sutskever et al. 2014), `backward` that sequence
        from its end, the end symbol first.
        """
        return self._read(reverse=reverse, backward=backward, shared=shared and self.shared)

    @_once
    def _read(self, *, reverse: bool, backward: bool, shared: bool) -> Reading:
        # `keep_apart` requires the longest first.
        read = len(self.closed)
        order = np.arange(read) if shared else np.argsort(-self.closed.lengths, kind="stable")
        read_I, offsets = _read_order(self.closed, order, reverse=reverse, backward=backward)
        sequences = Phrases(self.closed.ids[read_I], offsets)
        starts = 1 if shared else read
        tree = merge_prefixes(sequences, np.zeros(read, np.int64), starts) if shared else keep_apart(sequences)
        path_I = tree.path_I.numpy()
        node_I = np.empty_like(path_I)
        node_I[read_I] = path_I
        first_S, last_S = self._first_and_last()
        if backward:
            # With reversed words the last one read precedes the end symbol.
            last_S = np.maximum(last_S - 1, first_S) if reverse else first_S
        symbol_N = np.zeros(len(tree.words_N), np.int64)
        symbol_N[path_I - starts] = read_I
        return Reading(tree, starts, *map(torch.from_numpy, (node_I, node_I[last_S], symbol_N)))

    @_once
    def sequences(self) -> tuple[Tensor, Tensor, Tensor]:
        """Return the words of each sequence [Z, M], a mask that is False on padding, and each symbol's index [I]."""
        real_ZM = np.arange(self.closed.lengths.max()) < self.closed.lengths[:, None]
        words_ZM = np.full(real_ZM.shape, END, np.int64)
        words_ZM[real_ZM] = self.closed.ids
        return torch.from_numpy(words_ZM), torch.from_numpy(real_ZM), torch.from_numpy(np.flatnonzero(real_ZM))

    @_once
    def grid(self) -> tuple[Tensor, Tensor]:
        """Return the indices of the symbols of each phrase [S, L], and a mask that is False on padding [S, L]."""
        first_S, last_S = self._first_and_last()
        symbol_SL = first_S[:, None] + np.arange((last_S - first_S).max() + 1)
        real_SL = symbol_SL <= last_S[:, None]
        return torch.from_numpy(np.where(real_SL, symbol_SL, 0)), torch.from_numpy(real_SL)

    @_once
    def distances(self) -> Distances:
        """Return the distances of the symbols of `grid`."""
        first_S, last_S = self._first_and_last()
        length_S = last_S - first_S
        position_L = np.arange(length_S.max() + 1)
        following_SL = np.clip(length_S[:, None] - position_L, 0, FARTHEST)
        first_SL = np.broadcast_to(np.minimum(position_L, FARTHEST), following_SL.shape).copy()
        return Distances(*map(torch.from_numpy, (first_SL, following_SL, np.minimum(length_S, FARTHEST))))

    def _first_and_last(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return the first symbol of each phrase and the symbol after it."""
        if self.spans is None:
            return self.closed.offsets[:-1], self.closed.offsets[1:] - 1
        begins_S = self.closed.offsets[self.spans.sentence_S]
        return begins_S + self.spans.first_S, begins_S + self.spans.end_S


def _read_order(
    closed: Phrases, order_S: NDArray[np.int64], *, reverse: bool, backward: bool
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the indices of the symbols in reading order, [I], and the offsets of the phrases in the given order."""
    lengths_S = closed.lengths[order_S]
    offsets = offsets_of(lengths_S)
    length_I = np.repeat(lengths_S, lengths_S)
    position_I = np.arange(len(length_I)) - np.repeat(offsets[:-1], lengths_S)
    if backward:
        position_I = length_I - 1 - position_I
    if reverse:
        position_I = np.where(position_I < length_I - 1, length_I - 2 - position_I, position_I)
    return np.repeat(closed.offsets[order_S], lengths_S) + position_I, offsets


@dataclass(frozen=True)
class NodeRows:
    """Decoder nodes in rows of T nodes of the same source phrase, for G rows."""

    source_G: Tensor
    """The source phrase of each row."""
    node_GT: Tensor
    """The nodes of each row; padded with node 0."""
    cell_A: Tensor
    """The position of each node in the rows."""


@dataclass(frozen=True)
class PairBatch:
    """Source phrases, the prefix tree of the targets, and the node that predicts each symbol."""

    sources: SourceBatch
    target: PrefixTree
    """The target phrases, without end symbols. The start node of a target has the index of its source."""
    source_of_node_A: Tensor
    """The source phrase of each decoder node, start nodes first."""
    node_I: Tensor
    """The decoder node that predicts each symbol."""
    symbol_I: Tensor
    """The predicted symbols, pair by pair: the words of the target and then the end symbol."""
    pair_I: Tensor
    pairs: int

    @classmethod
    def sharing(
        cls, sources: Phrases | PhrasesInSentences, source_of_pair: NDArray[np.int64], targets: Phrases
    ) -> PairBatch:
        """Build for scoring from distinct sources, and the source index and the target of each pair."""
        # Padded with copies of the last source; see `rounded_up`.
        filled = np.pad(np.arange(len(sources)), (0, rounded_up(len(sources)) - len(sources)), "edge")
        target = merge_prefixes(targets, source_of_pair, starts=len(filled))
        return cls._assemble(SourceBatch.of(sources.take(filled)), target, source_of_pair, targets)

    @classmethod
    def apart(cls, sources: Phrases | PhrasesInSentences, targets: Phrases) -> PairBatch:
        """Build for training from source and target of each pair, longest target first; only sentences are shared."""
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

    @property
    def made(self) -> dict[Hashable, Any]:
        """The cache of the sources."""
        return self.sources.made

    @_once
    def rows_of_nodes(self) -> NodeRows:
        """Return the decoder nodes in rows of one source phrase each, so that attention gathers it once for a row."""
        source_A = self.source_of_node_A.numpy()
        nodes, sources = len(source_A), len(self.sources)
        width = min(_WIDEST_ROW, -(-nodes // sources))
        nodes_S = np.bincount(source_A, minlength=sources)
        rows_S = -(-nodes_S // width)
        by_source = np.argsort(source_A, kind="stable")
        cell_A = np.empty_like(source_A)
        first_S = width * offsets_of(rows_S)[:-1] - offsets_of(nodes_S)[:-1]
        cell_A[by_source] = np.arange(nodes) + np.repeat(first_S, nodes_S)
        source_G = np.repeat(np.arange(sources), rows_S)
        source_G = np.pad(source_G, (0, rounded_up(len(source_G)) - len(source_G)), "edge")
        node_GT = np.zeros((len(source_G), width), np.int64)
        node_GT.flat[cell_A] = np.arange(nodes)
        return NodeRows(*map(torch.from_numpy, (source_G, node_GT, cell_A)))
