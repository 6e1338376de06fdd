"""Phrases as word ids: one flat array and where each phrase begins in it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Ids = NDArray[np.int32]
Offsets = NDArray[np.int64]

_COUNTED_AT_ONCE = 1 << 22


def offsets_of(lengths: NDArray[np.integer | np.bool_]) -> Offsets:
    """Return where each of some consecutive runs begins, and behind them where the last one ends."""
    offsets = np.zeros(len(lengths) + 1, np.int64)
    np.cumsum(lengths, out=offsets[1:])
    return offsets


def ranges(starts: NDArray[np.integer], lengths: NDArray[np.integer]) -> NDArray[np.int64]:
    """Return `start, start + 1, ..., start + length - 1` for each pair of them, one after another."""
    offsets = offsets_of(lengths)
    return np.arange(offsets[-1]) + np.repeat(starts - offsets[:-1], lengths)


@dataclass(frozen=True)
class Phrases:
    """A list of phrases. Phrase i is `ids[offsets[i]:offsets[i + 1]]`; it may be empty."""

    ids: Ids
    offsets: Offsets

    @classmethod
    def from_lists(cls, phrases: Iterable[Iterable[int]]) -> Phrases:
        """Build from lists of ids."""
        lists = [list(phrase) for phrase in phrases]
        flat = [id_ for phrase in lists for id_ in phrase]
        return cls(np.array(flat, np.int32), offsets_of(np.array([len(p) for p in lists], np.int64)))

    def __len__(self) -> int:
        return len(self.offsets) - 1

    @property
    def lengths(self) -> NDArray[np.int64]:
        """Words in each phrase."""
        return np.diff(self.offsets)

    @property
    def read_with(self) -> NDArray[np.int64]:
        """Words that are read for each phrase beyond its own: none."""
        return np.zeros(len(self), np.int64)

    def take(self, indices: NDArray[np.integer]) -> Phrases:
        """Return the phrases at these indices, in their order."""
        starts = self.offsets[indices]
        lengths = self.offsets[np.asarray(indices) + 1] - starts
        return Phrases(self.ids[ranges(starts, lengths)], offsets_of(lengths))

    def where(self, is_taken: NDArray[np.bool_]) -> Phrases:
        """Return the phrases that are marked, in their order."""
        lengths = self.lengths
        return Phrases(self.ids[np.repeat(is_taken, lengths)], offsets_of(lengths[is_taken]))

    def counts(self, words: int) -> NDArray[np.int64]:
        """Return how often each id below `words`, which all are, stands in the phrases, [words]."""
        counts = np.zeros(words, np.int64)
        # Part by part, for bincount copies what it counts, and the ids may be more than fit into memory.
        for start in range(0, len(self.ids), _COUNTED_AT_ONCE):
            counts += np.bincount(self.ids[start : start + _COUNTED_AT_ONCE], minlength=words)
        return counts

    def with_end(self, symbol: int) -> Phrases:
        """Return the phrases with `symbol` after the last word of each."""
        return Phrases(
            np.insert(self.ids, self.offsets[1:], np.int32(symbol)),
            self.offsets + np.arange(len(self.offsets)),
        )


@dataclass(frozen=True)
class PhrasesInSentences:
    """Phrases where they stand in sentences: phrase i is the words from `first_S[i]` to before `end_S[i]` of one."""

    sentences: Phrases
    sentence_S: NDArray[np.int64]
    """The sentence of each phrase."""
    first_S: NDArray[np.int64]
    """Where it begins in its sentence, from 0."""
    end_S: NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.sentence_S)

    @property
    def lengths(self) -> NDArray[np.int64]:
        """Words in each phrase."""
        return self.end_S - self.first_S

    @property
    def read_with(self) -> NDArray[np.int64]:
        """Words that are read for each phrase beyond its own: the sentence, where it is another than the one before."""
        is_next = np.diff(self.sentence_S, prepend=-1) != 0
        return np.where(is_next, self.sentences.lengths[self.sentence_S], 0)

    def take(self, indices: NDArray[np.integer]) -> PhrasesInSentences:
        """Return the phrases at these indices, in their order, with the sentences that they stand in."""
        sentences, sentence_S = np.unique(self.sentence_S[indices], return_inverse=True)
        return PhrasesInSentences(
            self.sentences.take(sentences), sentence_S, self.first_S[indices], self.end_S[indices]
        )

    def alone(self) -> Phrases:
        """Return the phrases without their sentences."""
        starts = self.sentences.offsets[self.sentence_S] + self.first_S
        return Phrases(self.sentences.ids[ranges(starts, self.lengths)], offsets_of(self.lengths))
