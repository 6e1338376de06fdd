"""Prefix trees of batches of sequences.

The state of a recurrent network after x_1..x_t depends on that prefix alone, so sequences share the nodes of common
prefixes. Nothing is computed twice, and there is almost no padding. In a phrase table most phrases are a prefix of
another.

Legend: S sequences, R start nodes, N nodes below them, I symbols of all sequences.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from phrasescore.phrases import Phrases

Rows = slice | Tensor
"""Rows of a matrix: a leading slice, or indices."""

_WORD_BITS = 32
_MOST_DOUBLED = 32


def rounded_up(rows: int) -> int:
    """Round a number of rows up: to a power of two up to 32, above by at most a sixteenth.

    Matrix libraries compile a kernel for each new number of rows, which takes longer than the product itself, so there
    must be few different numbers. The padding of small levels stays small, because a long phrase has many of them.
    """
    if rows <= _MOST_DOUBLED:
        return 1 << max(0, rows - 1).bit_length()
    step = max(_MOST_DOUBLED, 1 << max(0, rows.bit_length() - 5))
    return -(-rows // step) * step


def take_rows(matrix: Tensor, rows: Rows) -> Tensor:
    """Select rows of a matrix."""
    return matrix[rows] if isinstance(rows, slice) else matrix.index_select(0, rows)


@dataclass(frozen=True)
class PrefixTree:
    """Nodes by depth, numbered level by level; the start nodes are 0 to R - 1."""

    parents: list[Rows]
    """For each level the parents of its nodes, as rows of the level above."""
    words_N: Tensor
    """The word on the edge into each node."""
    sizes: list[int]
    path_I: Tensor
    """The node reached after each symbol, sequence by sequence."""


def merge_prefixes(sequences: Phrases, start_S: NDArray[np.int64], starts: int) -> PrefixTree:
    """Build the tree in which sequences with the same start node share their common prefixes; `starts` is R."""
    lengths, begins = sequences.lengths, sequences.offsets[:-1]
    path = np.empty(len(sequences.ids), np.int64)
    parents: list[Rows] = []
    words: list[NDArray[np.int64]] = []
    node_S, first_node = start_S.astype(np.int64), starts
    for depth in range(int(lengths.max(initial=0))):
        alive = np.flatnonzero(lengths > depth)
        position = begins[alive] + depth
        key = (node_S[alive] << _WORD_BITS) | sequences.ids[position]
        distinct, node = np.unique(key, return_inverse=True)
        node_S[alive] = node
        path[position] = first_node + node
        level = np.pad(distinct, (0, rounded_up(len(distinct)) - len(distinct)), "edge")
        parents.append(torch.from_numpy(level >> _WORD_BITS))
        words.append(level & ((1 << _WORD_BITS) - 1))
        first_node += len(level)
    return _tree(parents, words, path)


def keep_apart(sequences: Phrases) -> PrefixTree:
    """Build the tree in which the sequences, sorted longest first, share no nodes.

    Each level is a slice of the level above, which is cheaper to differentiate than a gather.
    """
    lengths, begins = sequences.lengths, sequences.offsets[:-1]
    if np.any(lengths[1:] > lengths[:-1]):
        raise ValueError("sequences must be sorted by falling length")
    path = np.empty(len(sequences.ids), np.int64)
    parents: list[Rows] = []
    words: list[NDArray[np.int64]] = []
    first_node = len(sequences)
    for depth in range(int(lengths.max(initial=0))):
        alive = int(np.searchsorted(-lengths, -depth))
        position = begins[:alive] + depth
        path[position] = first_node + np.arange(alive)
        size = min(rounded_up(alive), len(sequences))
        parents.append(slice(0, size))
        words.append(np.pad(sequences.ids[position].astype(np.int64), (0, size - alive)))
        first_node += size
    return _tree(parents, words, path)


def _tree(parents: list[Rows], words: list[NDArray[np.int64]], path: NDArray[np.int64]) -> PrefixTree:
    sizes = [len(level) for level in words]
    words_N = np.concatenate(words) if words else np.empty(0, np.int64)
    return PrefixTree(parents, torch.from_numpy(words_N), sizes, torch.from_numpy(path))
