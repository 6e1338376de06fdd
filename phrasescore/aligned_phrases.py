"""Extraction of the phrase pairs that are consistent with a word alignment, with their positions in the sentences.

A source and a target span are a phrase pair if they share an alignment point and no word of one is aligned to a word
outside the other (phrase-extract/extract-main.cpp). For each target span the shortest such source span reaches from the
first to the last source word aligned to it; longer ones add unaligned words on either side.

Spans include their last word. Legend: S source words, T target words, P alignment points, of all sentences.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from phrasescore.errors import UserError
from phrasescore.pairs import PhrasePairs
from phrasescore.phrases import Offsets, PhrasesInSentences, offsets_of, ranges
from phrasescore.words import quote

LONGEST = 7
"""Maximum words of a phrase, as in Moses' training."""

_BATCH_CELLS = 1 << 22
_FAR = 1 << 40
"""The first alignment point of an unaligned word; the last is -1."""

# Nine digits fit the 32-bit integers in which positions are collected.
_LINE = re.compile(rb" *(?:[0-9]{1,9}-[0-9]{1,9}(?: +|$))*")
_POINT = re.compile(rb"[0-9]{1,9}-[0-9]{1,9}")

Positions = NDArray[np.int64]
Points = NDArray[np.int32] | NDArray[np.int64]


def parse_points(line: bytes, path: Path, number: int, lengths: tuple[int, int]) -> list[int]:
    """Return the positions of a line in Pharaoh format, source and target alternating: `0-0 2-1` gives 0, 0, 2, 1."""
    if not _LINE.fullmatch(line):
        token = next(token for token in line.split(b" ") if token and not _POINT.fullmatch(token))
        raise UserError(
            f"{path}: line {number}: `{quote(token)}` is not an alignment point; write each as `source-target`, word "
            "positions from 0, separated by spaces"
        )
    positions = [int(number) for number in line.replace(b"-", b" ").split(b" ") if number]
    for source, target in zip(positions[::2], positions[1::2], strict=True):
        if source >= lengths[0] or target >= lengths[1]:
            raise UserError(
                f"{path}: line {number}: the point `{source}-{target}` is outside its sentences of {lengths[0]} and "
                f"{lengths[1]} words; give the alignment of these texts, source first"
            )
    return positions


class AlignedSentences(NamedTuple):
    """Sentence pairs with their alignment; words are numbered through the text of each side."""

    source_offsets: Offsets
    target_offsets: Offsets
    source_P: Points
    """Source word of each alignment point. The points are distinct and sorted."""
    target_P: Points

    def batches(self) -> Iterator[tuple[int, int]]:
        """Yield ranges of sentences whose alignment matrices have a bounded total size."""
        cells = offsets_of((np.diff(self.source_offsets) + 2) * (np.diff(self.target_offsets) + 2))
        first, sentences = 0, len(self.source_offsets) - 1
        while first < sentences:
            end = max(first + 1, int(np.searchsorted(cells, cells[first] + _BATCH_CELLS, "right")) - 1)
            yield first, end
            first = end

    def some(self, first: int, end: int) -> AlignedSentences:
        """Return the sentences from `first` to before `end`, with words numbered from 0."""
        source_offsets, target_offsets = self.source_offsets[first : end + 1], self.target_offsets[first : end + 1]
        points = slice(*np.searchsorted(self.source_P, source_offsets[[0, -1]]))
        return AlignedSentences(
            source_offsets - source_offsets[0],
            target_offsets - target_offsets[0],
            self.source_P[points] - source_offsets[0],
            self.target_P[points] - target_offsets[0],
        )


class Spans(NamedTuple):
    """Pairs of source and target spans."""

    source_first: Positions
    source_last: Positions
    target_first: Positions
    target_last: Positions


@dataclass(frozen=True)
class AlignedPhrases:
    """Phrase pairs in context: phrase i of one side translates phrase i of the other."""

    source: PhrasesInSentences
    target: PhrasesInSentences

    def __len__(self) -> int:
        return len(self.source)

    def take(self, indices: NDArray[np.integer]) -> AlignedPhrases:
        """Return the phrase pairs at these indices, with only their sentences."""
        return AlignedPhrases(self.source.take(indices), self.target.take(indices))


def extract_phrases(sentences: PhrasePairs) -> AlignedPhrases:
    """Return the phrase pairs of aligned sentences, sentence by sentence."""
    assert sentences.alignment is not None
    points_P2 = sentences.alignment.ids.reshape(-1, 2)
    sentence_P = np.repeat(np.arange(len(sentences)), sentences.alignment.lengths // 2)
    offsets = sentences.source.offsets, sentences.target.offsets
    source_P, target_P = (side[sentence_P] + words for side, words in zip(offsets, points_P2.T, strict=True))
    spans = consistent_spans(AlignedSentences(*offsets, source_P, target_P))
    sentence = np.searchsorted(offsets[0], spans.source_first, "right") - 1
    order = np.argsort(sentence, kind="stable")
    sentence = sentence[order]
    source, target = (
        PhrasesInSentences(side, sentence, first[order] - begins[sentence], last[order] + 1 - begins[sentence])
        for side, begins, first, last in (
            (sentences.source, offsets[0], spans.source_first, spans.source_last),
            (sentences.target, offsets[1], spans.target_first, spans.target_last),
        )
    )
    return AlignedPhrases(source, target)


def consistent_spans(sentences: AlignedSentences, longest: int = LONGEST) -> Spans:
    """Return the spans of all phrase pairs with at most `longest` words on each side."""
    return _grow(_shortest_spans(sentences, longest), sentences, longest)


def _shortest_spans(sentences: AlignedSentences, longest: int) -> Spans:
    """Return for each target span the phrase pair with the shortest source span, if there is one."""
    source_words, target_words = sentences.source_offsets[-1], sentences.target_offsets[-1]
    source_first, source_last = _aligned_ranges(sentences.target_P, sentences.source_P, target_words, longest)
    target_first, target_last = _aligned_ranges(sentences.source_P, sentences.target_P, source_words, longest)
    sentence_end_T = np.repeat(sentences.target_offsets[1:], np.diff(sentences.target_offsets))
    last = np.arange(longest)[:, None] + np.arange(len(sentence_end_T))
    usable = (last < sentence_end_T) & (source_last >= 0) & (source_last < source_first + longest)
    spans = Spans(source_first[usable], source_last[usable], np.nonzero(usable)[1], last[usable])
    width = spans.source_last - spans.source_first
    consistent = (target_first[width, spans.source_first] >= spans.target_first) & (
        target_last[width, spans.source_first] <= spans.target_last
    )
    return Spans(*(place[consistent] for place in spans))


def _aligned_ranges(word_P: Points, aligned_P: Points, words: int, longest: int) -> tuple[Positions, Positions]:
    """Return in row n - 1, column i the first and last word aligned to any of the n words from word i."""
    first = np.full((longest, words), _FAR)
    last = np.full((longest, words), -1)
    # For repeated indices NumPy keeps the last value.
    first[0, word_P[::-1]] = aligned_P[::-1]
    last[0, word_P] = aligned_P
    for n in range(1, longest):
        first[n], last[n] = first[n - 1], last[n - 1]
        np.minimum(first[n, :-n], first[0, n:], out=first[n, :-n])
        np.maximum(last[n, :-n], last[0, n:], out=last[n, :-n])
    return first, last


def _grow(spans: Spans, sentences: AlignedSentences, longest: int) -> Spans:
    """Add the pairs whose source span extends over unaligned words, first to the left, then to the right."""
    left_S, right_S = _unaligned_around(sentences)
    left = np.minimum(left_S[spans.source_first], longest - 1 - (spans.source_last - spans.source_first))
    source_first = ranges(spans.source_first - left, left + 1)
    source_last, target_first, target_last = (np.repeat(place, left + 1) for place in spans[1:])
    right = np.minimum(right_S[source_last], longest - 1 - (source_last - source_first))
    return Spans(
        np.repeat(source_first, right + 1),
        ranges(source_last, right + 1),
        np.repeat(target_first, right + 1),
        np.repeat(target_last, right + 1),
    )


def _unaligned_around(sentences: AlignedSentences) -> tuple[Positions, Positions]:
    """Return the number of unaligned source words directly before and after each word in its sentence."""
    lengths = np.diff(sentences.source_offsets)
    first_S, end_S = np.repeat(sentences.source_offsets[:-1], lengths), np.repeat(sentences.source_offsets[1:], lengths)
    place_S = np.arange(len(first_S))
    is_aligned_S = np.bincount(sentences.source_P, minlength=len(first_S)) > 0
    previous_S = np.maximum.accumulate(np.where(is_aligned_S, place_S, -1))
    next_S = np.minimum.accumulate(np.where(is_aligned_S, place_S, _FAR)[::-1])[::-1]
    left_S = place_S - np.maximum(np.append(-1, previous_S[:-1]) + 1, first_S)
    right_S = np.minimum(np.append(next_S[1:], _FAR), end_S) - 1 - place_S
    return left_S, right_S
