"""Phrase pairs that are consistent with the word alignment, each where it occurs.

A source and a target span are a phrase pair when they hold an alignment point in common and no word of one is aligned
to a word outside the other (phrase-extract/extract-main.cpp). For each target span the shortest such source span
reaches from the first to the last source word aligned to it; longer ones come by adding unaligned words on both sides.

Places of words count through a batch of sentences, in `Instances` through the whole text. Spans include their last
word.
Shape suffixes: S source words, T target words, P alignment points, M cells of the alignment matrices, all of a batch;
I instances of phrase pairs; W = 7 words.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, fields
from typing import NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from moses_integration.build.aligned_corpus import AlignedCorpus
from moses_integration.build.pair_alignment import LONGEST_PHRASE, Alignments, number_alignments
from phrasescore.phrases import offsets_of, ranges

MONOTONE, SWAP, DISCONTINUOUS = range(3)
"""Orientations of a phrase pair to the one before or after it on the target side."""

_BATCH_CELLS = 1 << 22
_FAR = 1 << 40
"""Place of the first alignment point of an unaligned word; of its last one, -1."""

Places = NDArray[np.int64]


@dataclass(frozen=True)
class Instances:
    """Occurrences of phrase pairs."""

    source_start_I: NDArray[np.int32]
    source_length_I: NDArray[np.int8]
    target_start_I: NDArray[np.int32]
    target_length_I: NDArray[np.int8]
    alignment_I: Alignments
    orientation_I: NDArray[np.int8]
    """3 * orientation to the phrase before + orientation to the one after."""

    def __len__(self) -> int:
        return len(self.alignment_I)

    @classmethod
    def from_records(cls, records_I: NDArray[np.void]) -> Self:
        """Return the instances of an array that `to_records` made, or of some of its rows."""
        return cls(*(np.ascontiguousarray(records_I[field.name]) for field in fields(cls)))

    def to_records(self) -> NDArray[np.void]:
        """Return an array of a row for each instance, as it lies in a file."""
        columns = [getattr(self, field.name) for field in fields(self)]
        kinds = [(field.name, column.dtype) for field, column in zip(fields(self), columns, strict=True)]
        records_I = np.empty(len(self), kinds)
        for field, column in zip(fields(self), columns, strict=True):
            records_I[field.name] = column
        return records_I

    def take(self, indices: NDArray[np.integer]) -> Self:
        """Return the instances at these indices, in their order."""
        return type(self)(*(getattr(self, field.name)[indices] for field in fields(self)))


class _Batch(NamedTuple):
    """Some sentence pairs."""

    source_offsets: Places
    """Where each sentence begins, and behind them where the last one ends."""
    target_offsets: Places
    source_P: Places
    target_P: Places


class _Spans(NamedTuple):
    """Pairs of a source and a target span."""

    source_first: Places
    source_last: Places
    target_first: Places
    target_last: Places


def batches(corpus: AlignedCorpus) -> Iterator[tuple[int, int]]:
    """Yield ranges of sentences whose alignment matrices have a bounded size together."""
    cells = offsets_of((np.diff(corpus.source.offsets) + 2) * (np.diff(corpus.target.offsets) + 2))
    first = 0
    while first < corpus.sentences:
        end = max(first + 1, int(np.searchsorted(cells, cells[first] + _BATCH_CELLS, "right")) - 1)
        yield first, end
        first = end


def extract_phrase_pairs(corpus: AlignedCorpus, first: int, end: int, longest: int = LONGEST_PHRASE) -> Instances:
    """Return every occurrence of a phrase pair in the sentences from `first` to before `end`.

    It has at most `longest` (at most 7) words on each side.
    """
    source_offsets, target_offsets = corpus.source.offsets[first : end + 1], corpus.target.offsets[first : end + 1]
    source_base, target_base = source_offsets[0], target_offsets[0]
    points = slice(*np.searchsorted(corpus.source_P, source_offsets[[0, -1]]))
    batch = _Batch(
        source_offsets - source_base,
        target_offsets - target_base,
        corpus.source_P[points] - source_base,
        corpus.target_P[points] - target_base,
    )
    spans = _grow(_shortest_spans(batch, longest), batch, longest)
    source_length_I = spans.source_last - spans.source_first + 1
    target_length_I = spans.target_last - spans.target_first + 1
    matrices = _Matrices.of(batch)
    return Instances(
        (spans.source_first + source_base).astype(np.int32),
        source_length_I.astype(np.int8),
        (spans.target_first + target_base).astype(np.int32),
        target_length_I.astype(np.int8),
        matrices.alignments(spans),
        matrices.orientations(spans),
    )


def _shortest_spans(batch: _Batch, longest: int) -> _Spans:
    """Return for each target span that is in a phrase pair the one with the shortest source span."""
    source_first, source_last = _aligned_ranges(batch.target_P, batch.source_P, batch.target_offsets[-1], longest)
    target_first, target_last = _aligned_ranges(batch.source_P, batch.target_P, batch.source_offsets[-1], longest)
    sentence_end_T = np.repeat(batch.target_offsets[1:], np.diff(batch.target_offsets))
    last = np.arange(longest)[:, None] + np.arange(len(sentence_end_T))
    usable = (last < sentence_end_T) & (source_last >= 0) & (source_last < source_first + longest)
    spans = _Spans(source_first[usable], source_last[usable], np.nonzero(usable)[1], last[usable])
    width = spans.source_last - spans.source_first
    consistent = (target_first[width, spans.source_first] >= spans.target_first) & (
        target_last[width, spans.source_first] <= spans.target_last
    )
    return _Spans(*(place[consistent] for place in spans))


def _aligned_ranges(word_P: Places, aligned_P: Places, words: int, longest: int) -> tuple[Places, Places]:
    """Return in row n - 1, column i the first and last word aligned to any of the n words from word i.

    `aligned_P` must rise among the points of one word.
    """
    first = np.full((longest, words), _FAR)
    last = np.full((longest, words), -1)
    # Where an index is repeated the value assigned last stays.
    first[0, word_P[::-1]] = aligned_P[::-1]
    last[0, word_P] = aligned_P
    for n in range(1, longest):
        first[n], last[n] = first[n - 1], last[n - 1]
        np.minimum(first[n, :-n], first[0, n:], out=first[n, :-n])
        np.maximum(last[n, :-n], last[0, n:], out=last[n, :-n])
    return first, last


def _grow(spans: _Spans, batch: _Batch, longest: int) -> _Spans:
    """Return also the pairs whose source span goes on over unaligned words, first to the left, then to the right."""
    left_S, right_S = _unaligned_around(batch)
    left = np.minimum(left_S[spans.source_first], longest - 1 - (spans.source_last - spans.source_first))
    source_first = ranges(spans.source_first - left, left + 1)
    source_last, target_first, target_last = (np.repeat(place, left + 1) for place in spans[1:])
    right = np.minimum(right_S[source_last], longest - 1 - (source_last - source_first))
    return _Spans(
        np.repeat(source_first, right + 1),
        ranges(source_last, right + 1),
        np.repeat(target_first, right + 1),
        np.repeat(target_last, right + 1),
    )


def _unaligned_around(batch: _Batch) -> tuple[Places, Places]:
    """Return how many source words directly before and after each one are unaligned and of its sentence."""
    lengths = np.diff(batch.source_offsets)
    first_S, end_S = np.repeat(batch.source_offsets[:-1], lengths), np.repeat(batch.source_offsets[1:], lengths)
    place_S = np.arange(len(first_S))
    is_aligned_S = np.bincount(batch.source_P, minlength=len(first_S)) > 0
    previous_S = np.maximum.accumulate(np.where(is_aligned_S, place_S, -1))
    next_S = np.minimum.accumulate(np.where(is_aligned_S, place_S, _FAR)[::-1])[::-1]
    left_S = place_S - np.maximum(np.append(-1, previous_S[:-1]) + 1, first_S)
    right_S = np.minimum(np.append(next_S[1:], _FAR), end_S) - 1 - place_S
    return left_S, right_S


@dataclass(frozen=True)
class _Matrices:
    """The alignment matrices of a batch, one after another, a row for each target word.

    Each has a border, empty but for a point before the first and one after the last words of both sentences: by these
    Moses takes phrases at the ends of the sentences for monotone.
    """

    points_M: NDArray[np.uint8]
    origin_T: Places
    """What to add to the place of a source word for its cell in the row of this target word."""
    stride_T: Places
    """Cells in a row."""

    @classmethod
    def of(cls, batch: _Batch) -> Self:
        """Fill the matrices."""
        source_lengths, target_lengths = np.diff(batch.source_offsets), np.diff(batch.target_offsets)
        corners = offsets_of((source_lengths + 2) * (target_lengths + 2))
        row_T = np.arange(batch.target_offsets[-1]) - np.repeat(batch.target_offsets[:-1], target_lengths) + 1
        stride_T = np.repeat(source_lengths + 2, target_lengths)
        origin_T = np.repeat(corners[:-1] + 1 - batch.source_offsets[:-1], target_lengths) + row_T * stride_T
        points_M = np.zeros(corners[-1], np.uint8)
        points_M[corners[:-1]] = points_M[corners[1:] - 1] = 1
        points_M[origin_T[batch.target_P] + batch.source_P] = 1
        return cls(points_M, origin_T, stride_T)

    def orientations(self, spans: _Spans) -> NDArray[np.int8]:
        """Return the orientations to the phrases before and after, by the points at the corners of the pair.

        Word-based model `wbe-msd` (getOrientWordModel in extract-main.cpp).
        """
        before = self.origin_T[spans.target_first] - self.stride_T[spans.target_first]
        after = self.origin_T[spans.target_last] + self.stride_T[spans.target_last]
        left, right = spans.source_first - 1, spans.source_last + 1
        previous_I = _orientation(self.points_M[before + left], self.points_M[before + right])
        next_I = _orientation(self.points_M[after + right], self.points_M[after + left])
        return (3 * previous_I + next_I).astype(np.int8)

    def alignments(self, spans: _Spans) -> Alignments:
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
    """Return the orientation by whether there is a point at the corner straight ahead, and at the one across."""
    return np.where(straight_I == crossed_I, DISCONTINUOUS, np.where(straight_I, MONOTONE, SWAP))
