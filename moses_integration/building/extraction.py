"""Extract the phrase pairs that are consistent with the word alignment, with their alignments and orientations.

The alignment within a pair is one integer, in Moses' order of alignments. Moses stores for each target word the set of
source words aligned to it, and compares alignments at the first target word where they differ. Sets compare as their
sorted lists of positions, the empty set first. So the integer has 7 bits for each target word, the first word in the
highest bits: the rank of its set among all sets of 7 positions (phrase-extract/ExtractionPhrasePair.cpp,
FindBestAlignmentTargetToSource).

Word positions count through a batch of sentences, in `INSTANCE` through the whole text. Spans include their last word.
Shape suffixes: T target words, M cells of the alignment matrices, all of a batch; I instances of phrase pairs or their
alignments; W = 7 words, with bits of 0 beyond the phrase.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Self

import numpy as np
from numpy.typing import NDArray

from phrasescore.aligned_phrases import AlignedSentences, Positions, Spans, consistent_spans
from phrasescore.phrases import offsets_of

LONGEST_PHRASE = 7
"""Words of the longest phrase: 7 sets of 7 positions fit into 64 bits."""
MONOTONE, SWAP, DISCONTINUOUS = range(3)
"""Orientations of a phrase pair to the previous or following one on the target side."""
INSTANCE = np.dtype(
    [
        ("source_start", np.int32),
        ("source_length", np.int8),
        ("target_start", np.int32),
        ("target_length", np.int8),
        ("alignment", np.int64),
        # 3 * orientation to the previous phrase + orientation to the following phrase.
        ("orientation", np.int8),
    ]
)

Instances = NDArray[np.void]
Alignments = NDArray[np.int64]

_SETS = sorted([word for word in range(LONGEST_PHRASE) if bits >> word & 1] for bits in range(1 << LONGEST_PHRASE))
_BITS_OF_RANK = np.array([sum(1 << word for word in words) for words in _SETS], np.uint8)
_RANK_OF_BITS = np.argsort(_BITS_OF_RANK)


def extract_phrase_pairs(text: AlignedSentences, first: int, end: int, longest: int = LONGEST_PHRASE) -> Instances:
    """Return the phrase pairs of up to `longest` (at most 7) words a side in the sentences `first` to before `end`."""
    batch = text.some(first, end)
    spans = consistent_spans(batch, longest)
    matrices = _Matrices.of(batch)
    instances_I = np.empty(len(spans.source_first), INSTANCE)
    instances_I["source_start"] = spans.source_first + text.source_offsets[first]
    instances_I["source_length"] = spans.source_last - spans.source_first + 1
    instances_I["target_start"] = spans.target_first + text.target_offsets[first]
    instances_I["target_length"] = spans.target_last - spans.target_first + 1
    instances_I["alignment"] = matrices.alignments(spans)
    instances_I["orientation"] = matrices.orientations(spans)
    return instances_I


@dataclass(frozen=True)
class _Matrices:
    """The alignment matrices of a batch, concatenated, with a row for each target word.

    Each has a border with a point in its first and last corner, so that the ends of the sentences are monotone
    orientations, as in Moses.
    """

    points_M: NDArray[np.uint8]
    origin_T: Positions
    """Plus the position of a source word: its cell in the row of this target word."""
    stride_T: Positions

    @classmethod
    def of(cls, batch: AlignedSentences) -> Self:
        source_lengths, target_lengths = np.diff(batch.source_offsets), np.diff(batch.target_offsets)
        corners = offsets_of((source_lengths + 2) * (target_lengths + 2))
        row_T = np.arange(batch.target_offsets[-1]) - np.repeat(batch.target_offsets[:-1], target_lengths) + 1
        stride_T = np.repeat(source_lengths + 2, target_lengths)
        origin_T = np.repeat(corners[:-1] + 1 - batch.source_offsets[:-1], target_lengths) + row_T * stride_T
        points_M = np.zeros(corners[-1], np.uint8)
        points_M[corners[:-1]] = points_M[corners[1:] - 1] = 1
        points_M[origin_T[batch.target_P] + batch.source_P] = 1
        return cls(points_M, origin_T, stride_T)

    def orientations(self, spans: Spans) -> NDArray[np.uint8]:
        """Return the orientations by the points at the corners of each pair (extract-main.cpp, getOrientWordModel)."""
        before = self.origin_T[spans.target_first] - self.stride_T[spans.target_first]
        after = self.origin_T[spans.target_last] + self.stride_T[spans.target_last]
        left, right = spans.source_first - 1, spans.source_last + 1
        previous_I = _orientation(self.points_M[before + left], self.points_M[before + right])
        next_I = _orientation(self.points_M[after + right], self.points_M[after + left])
        return 3 * previous_I + next_I

    def alignments(self, spans: Spans) -> Alignments:
        bits_M = self.points_M.copy()
        for shift in range(1, LONGEST_PHRASE):
            bits_M[:-shift] |= self.points_M[shift:] << np.uint8(shift)
        own_bits_I = ((2 << (spans.source_last - spans.source_first)) - 1).astype(np.uint8)
        bits_IW = np.zeros((len(own_bits_I), LONGEST_PHRASE), np.uint8)
        for row in range(LONGEST_PHRASE):
            target_I = spans.target_first + row
            inside_I = np.flatnonzero(target_I <= spans.target_last)
            cell = self.origin_T[target_I[inside_I]] + spans.source_first[inside_I]
            bits_IW[inside_I, row] = bits_M[cell] & own_bits_I[inside_I]
        return number_alignments(bits_IW)


def _orientation(straight_I: NDArray[np.uint8], crossed_I: NDArray[np.uint8]) -> NDArray[np.uint8]:
    return np.where(straight_I == crossed_I, DISCONTINUOUS, np.where(straight_I, MONOTONE, SWAP)).astype(np.uint8)


def number_alignments(bits_IW: NDArray[np.uint8]) -> Alignments:
    """Return the number of each alignment; bit s of `bits_IW[i, t]` is the point of source s and target t."""
    number_I = np.zeros(len(bits_IW), np.int64)
    for bits_I in bits_IW.T:
        number_I = number_I << LONGEST_PHRASE | _RANK_OF_BITS[bits_I]
    return number_I


def transpose_alignments(number_I: Alignments) -> Alignments:
    """Return the number of each alignment with source and target exchanged."""
    shifts = LONGEST_PHRASE * np.arange(LONGEST_PHRASE)[::-1]
    bits_IW1 = _BITS_OF_RANK[number_I[:, None] >> shifts & (1 << LONGEST_PHRASE) - 1][..., None]
    points_IWW = np.unpackbits(bits_IW1, axis=2, count=LONGEST_PHRASE, bitorder="little")
    return number_alignments(np.packbits(points_IWW, axis=1, bitorder="little")[:, 0])


@lru_cache(maxsize=1 << 16)
def print_alignment(number: int) -> bytes:
    """Return the alignment as `source-target` points, ordered by target, then source word."""
    points = []
    for target in range(LONGEST_PHRASE):
        rank = number >> LONGEST_PHRASE * (LONGEST_PHRASE - 1 - target) & (1 << LONGEST_PHRASE) - 1
        points += [b"%d-%d" % (source, target) for source in _SETS[rank]]
    return b" ".join(points)
