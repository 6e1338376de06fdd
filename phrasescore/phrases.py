"""Lists of phrases as word ids, in one flat array with offsets, and their hashes."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Ids = NDArray[np.int32]
Offsets = NDArray[np.int64]

_COUNTED_AT_ONCE = 1 << 22
_HASHED_AT_ONCE = 1 << 16


def offsets_of(lengths: NDArray[np.integer | np.bool_]) -> Offsets:
    """Return the start of each of consecutive runs with these lengths, and the end of the last."""
    offsets = np.zeros(len(lengths) + 1, np.int64)
    np.cumsum(lengths, out=offsets[1:])
    return offsets


def ranges(starts: NDArray[np.integer], lengths: NDArray[np.integer]) -> NDArray[np.int64]:
    """Return the concatenation of `start, start + 1, ..., start + length - 1` over all runs."""
    offsets = offsets_of(lengths)
    return np.arange(offsets[-1]) + np.repeat(starts - offsets[:-1], lengths)


@dataclass(frozen=True)
class Phrases:
    """A list of phrases. Phrase i is `ids[offsets[i]:offsets[i + 1]]`; it may be empty."""

    ids: Ids
    offsets: Offsets

    @classmethod
    def from_lists(cls, phrases: Iterable[Iterable[int]]) -> Phrases:
        lists = [list(phrase) for phrase in phrases]
        flat = [id_ for phrase in lists for id_ in phrase]
        return cls(np.array(flat, np.int32), offsets_of(np.array([len(p) for p in lists], np.int64)))

    def __len__(self) -> int:
        return len(self.offsets) - 1

    @property
    def lengths(self) -> NDArray[np.int64]:
        return np.diff(self.offsets)

    @property
    def read_with(self) -> NDArray[np.int64]:
        """Words that an encoder reads for each phrase in addition to it: none."""
        return np.zeros(len(self), np.int64)

    def take(self, indices: NDArray[np.integer]) -> Phrases:
        starts = self.offsets[indices]
        lengths = self.offsets[np.asarray(indices) + 1] - starts
        return Phrases(self.ids[ranges(starts, lengths)], offsets_of(lengths))

    def where(self, is_taken: NDArray[np.bool_]) -> Phrases:
        lengths = self.lengths
        return Phrases(self.ids[np.repeat(is_taken, lengths)], offsets_of(lengths[is_taken]))

    def counts(self, words: int) -> NDArray[np.int64]:
        """Return the count of each id, [words]; all ids must be below `words`."""
        counts = np.zeros(words, np.int64)
        # In chunks, because bincount copies its input and the ids may not fit into memory.
        for start in range(0, len(self.ids), _COUNTED_AT_ONCE):
            counts += np.bincount(self.ids[start : start + _COUNTED_AT_ONCE], minlength=words)
        return counts

    def with_end(self, symbol: int) -> Phrases:
        """Return the phrases with `symbol` after the last word of each."""
        return Phrases(
            np.insert(self.ids, self.offsets[1:], np.int32(symbol)), self.offsets + np.arange(len(self.offsets))
        )


@dataclass(frozen=True)
class PhrasesInSentences:
    """Phrases in context: phrase i is words `first_S[i]` to `end_S[i] - 1` of sentence `sentence_S[i]`, from 0."""

    sentences: Phrases
    sentence_S: NDArray[np.int64]
    first_S: NDArray[np.int64]
    end_S: NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.sentence_S)

    @property
    def lengths(self) -> NDArray[np.int64]:
        return self.end_S - self.first_S

    @property
    def read_with(self) -> NDArray[np.int64]:
        """Words that an encoder reads for each phrase in addition to it: its sentence, if the previous one differs."""
        is_next = np.diff(self.sentence_S, prepend=-1) != 0
        return np.where(is_next, self.sentences.lengths[self.sentence_S], 0)

    def take(self, indices: NDArray[np.integer]) -> PhrasesInSentences:
        """Return the phrases at these indices, with only their sentences."""
        sentences, sentence_S = np.unique(self.sentence_S[indices], return_inverse=True)
        return PhrasesInSentences(
            self.sentences.take(sentences), sentence_S, self.first_S[indices], self.end_S[indices]
        )

    def twice(self) -> PhrasesInSentences:
        """Return each phrase two times in a row, each time in its own copy of the sentence."""
        sentences = len(self.sentences)
        return PhrasesInSentences(
            self.sentences.take(np.tile(np.arange(sentences), 2)),
            (self.sentence_S[:, None] + np.array([0, sentences])).ravel(),
            *(np.repeat(bounds, 2) for bounds in (self.first_S, self.end_S)),
        )

    def alone(self) -> Phrases:
        starts = self.sentences.offsets[self.sentence_S] + self.first_S
        return Phrases(self.sentences.ids[ranges(starts, self.lengths)], offsets_of(self.lengths))


def hash_phrases(phrases: Phrases) -> NDArray[np.uint64]:
    """Return 64 well-mixed bits for each phrase, equal for equal phrases."""
    starts = range(0, len(phrases), _HASHED_AT_ONCE)
    pieces = (phrases.take(np.arange(start, min(start + _HASHED_AT_ONCE, len(phrases)))) for start in starts)
    return np.concatenate([np.zeros(0, np.uint64), *map(_hash, pieces)])


def _hash(phrases: Phrases) -> NDArray[np.uint64]:
    position = np.arange(len(phrases.ids)) - np.repeat(phrases.offsets[:-1], phrases.lengths)
    mixed = mix(phrases.ids.astype(np.uint64) + (position.astype(np.uint64) << np.uint64(40)))
    sums = np.concatenate((np.zeros(1, np.uint64), np.cumsum(mixed)))
    return mix(sums[phrases.offsets[1:]] - sums[phrases.offsets[:-1]])


def hash_pairs(first: NDArray[np.uint64], second: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Return 64 well-mixed bits for each pair, from the hashes of its sides."""
    return mix(first + np.uint64(1)) ^ second


def mix(bits: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Return the finaliser of SplitMix64: a bijection that spreads each bit over all others."""
    bits = bits + np.uint64(0x9E3779B97F4A7C15)
    bits = (bits ^ (bits >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    bits = (bits ^ (bits >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return bits ^ (bits >> np.uint64(31))
