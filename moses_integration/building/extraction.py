"""Extract the phrase pairs that are consistent with the word alignment, with their alignments and orientations.

Word positions count through a batch of sentences, in `Instances` through the whole text. Spans include their last word.
Shape suffixes: S source words, T target words, P alignment points, M cells of the alignment matrices, all of a batch;
I instances of phrase pairs; W = 7 words.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Self

import numpy as np
from numpy.typing import NDArray

from moses_integration.building.aligned_corpus import AlignedCorpus
from moses_integration.building.pair_alignment import LONGEST_PHRASE, Alignments, number_alignments
from phrasescore.aligned_phrases import AlignedSentences, Positions, Spans, consistent_spans
from phrasescore.phrases import offsets_of

MONOTONE, SWAP, DISCONTINUOUS = range(3)
"""Orientations of a phrase pair to the previous or following one on the target side."""


@dataclass(frozen=True)
class Instances:
    """Occurrences of phrase pairs."""

    source_start_I: NDArray[np.int32]
    source_length_I: NDArray[np.int8]
    target_start_I: NDArray[np.int32]
    target_length_I: NDArray[np.int8]
    alignment_I: Alignments
    orientation_I: NDArray[np.int8]
    """3 * orientation to the previous phrase + orientation to the following phrase."""

    def __len__(self) -> int:
        return len(self.alignment_I)

    @classmethod
    def from_records(cls, records_I: NDArray[np.void]) -> Self:
        """Undo `to_records`."""
        return cls(*(np.ascontiguousarray(records_I[field.name]) for field in fields(cls)))

    def to_records(self) -> NDArray[np.void]:
        """Return a structured array with a row for each instance."""
        columns = [getattr(self, field.name) for field in fields(self)]
        kinds = [(field.name, column.dtype) for field, column in zip(fields(self), columns, strict=True)]
        records_I = np.empty(len(self), kinds)
        for field, column in zip(fields(self), columns, strict=True):
            records_I[field.name] = column
        return records_I

    def take(self, indices: NDArray[np.integer]) -> Self:
        """Return the instances at these indices."""
        return type(self)(*(getattr(self, field.name)[indices] for field in fields(self)))


def extract_phrase_pairs(corpus: AlignedCorpus, first: int, end: int, longest: int = LONGEST_PHRASE) -> Instances:
    """Return the phrase pairs of up to `longest` (at most 7) words a side in the sentences `first` to before `end`."""
    batch = corpus.aligned.some(first, end)
    spans = consistent_spans(batch, longest)
    source_length_I = spans.source_last - spans.source_first + 1
    target_length_I = spans.target_last - spans.target_first + 1
    matrices = _Matrices.of(batch)
    return Instances(
        (spans.source_first + corpus.source.offsets[first]).astype(np.int32),
        source_length_I.astype(np.int8),
        (spans.target_first + corpus.target.offsets[first]).astype(np.int32),
        target_length_I.astype(np.int8),
        matrices.alignments(spans),
        matrices.orientations(spans),
    )


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
    """Cells in a row."""

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

    def orientations(self, spans: Spans) -> NDArray[np.int8]:
        """Return the orientations by the points at the corners of each pair.

        Model `wbe-msd` (getOrientWordModel in extract-main.cpp).
        """
        before = self.origin_T[spans.target_first] - self.stride_T[spans.target_first]
        after = self.origin_T[spans.target_last] + self.stride_T[spans.target_last]
        left, right = spans.source_first - 1, spans.source_last + 1
        previous_I = _orientation(self.points_M[before + left], self.points_M[before + right])
        next_I = _orientation(self.points_M[after + right], self.points_M[after + left])
        return (3 * previous_I + next_I).astype(np.int8)

    def alignments(self, spans: Spans) -> Alignments:
        """Return the alignment within each pair as a number."""
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
    """Return the orientation by the points at the monotone corner and at the swap corner."""
    return np.where(straight_I == crossed_I, DISCONTINUOUS, np.where(straight_I, MONOTONE, SWAP))
