"""Affiliations: the source word that each target word is taken to translate, for a joint model.

Devlin et al. 2014, section 2.1: the middle one of the source words that the target word is aligned to; for an unaligned
word that of the nearest aligned target word, of two the one on the right. The words around a phrase are unknown to the
decoder, so they count as aligned with the ends of its source phrase; a sentence pair is one phrase pair.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from phrasescore.aligned_phrases import parse_points
from phrasescore.phrases import Ids, Offsets, Phrases
from phrasescore.vocabulary import END
from phrasescore.words import split_words


class TextRow(NamedTuple):
    """A target sentence; for a joint model, with its source."""

    target: bytes
    source: bytes | None = None
    affiliations: Sequence[int] = ()
    """Source position of each target word, from 0."""


class AffiliatedSource(NamedTuple):
    """The source of target sentences."""

    sentences: Phrases
    """Ids of the source words."""
    affiliations: Phrases
    """Source position of each target word, from 0."""

    def where(self, is_taken: NDArray[np.bool_]) -> AffiliatedSource:
        """Return the sentences at which the mask is true."""
        return AffiliatedSource(self.sentences.where(is_taken), self.affiliations.where(is_taken))


def affiliations(points: Iterable[tuple[int, int]], words: int, source_words: int) -> list[int]:
    """Return the source position of each of the `words` target words, from (source, target) alignment points."""
    aligned: defaultdict[int, list[int]] = defaultdict(list)
    for source, target in sorted(set(points)):
        aligned[target].append(source)
    position_of = {target: sources[(len(sources) - 1) // 2] for target, sources in aligned.items()}
    position_of |= {-1: 0, words: max(0, source_words - 1)}

    def inherited(word: int) -> int:
        return position_of[min(position_of, key=lambda other: (abs(other - word), -other))]

    return [position_of[word] if word in position_of else inherited(word) for word in range(words)]


def affiliate(rows: Iterable[Sequence[bytes]], alignment: Path) -> Iterator[TextRow]:
    """Return (target, source, alignment points) with affiliations in place of the points."""
    for number, (target, source, line) in enumerate(rows, 1):
        lengths = len(split_words(source)), len(split_words(target))
        points = parse_points(line, alignment, number, lengths)
        yield TextRow(target, source, affiliations(zip(points[::2], points[1::2], strict=True), *lengths[::-1]))


def source_windows(sentences: Phrases, words: int) -> tuple[Ids, Offsets]:
    """Return the window of `words` (odd) source words around each word and the end of each sentence [*, words].

    Also return the row of the first window of each sentence. The words beyond a sentence are end symbols.
    """
    half, closed = words // 2, sentences.with_end(END)
    # Each sentence follows `half` end symbols; at least one window follows the last sentence.
    before = np.repeat(closed.offsets, half + words * (np.arange(len(closed.offsets)) == len(sentences)))
    flat: Ids = np.insert(closed.ids, before, np.int32(END))
    first = closed.offsets[:-1] + half * np.arange(len(sentences))
    return np.lib.stride_tricks.sliding_window_view(flat, words), first
