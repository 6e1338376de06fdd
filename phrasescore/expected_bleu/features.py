"""Features of phrase pairs for the phrase-pair model: a bag of sparse features per pair.

TARGET_WORD                 each target word
TARGET_BIGRAM               each two adjacent target words
WORD_PAIR                   each source word with each target word
FIRST_..., LAST_...         words at the phrase boundaries, of either side and of both
..._LENGTH, LENGTHS         numbers of words, of either side and of both

A feature is identified by a 64-bit hash of its kind and the bytes of its words, so no vocabulary is needed. Among a
million features a collision has a probability of 1 in 37 million.

Legend: P pairs, K features of all pairs, N words of one side of all pairs.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import IntEnum, auto

import numpy as np
from numpy.typing import NDArray

from phrasescore.pairs import hash_pairs
from phrasescore.phrases import Offsets, offsets_of, ranges
from phrasescore.words import split_words

FAMILY = 1
"""Version of the features; models of other versions are rejected."""

Keys = NDArray[np.uint64]
Numbers = NDArray[np.int64]


class Kind(IntEnum):
    """Kinds of features."""

    TARGET_WORD = auto()
    TARGET_BIGRAM = auto()
    WORD_PAIR = auto()
    FIRST_SOURCE_WORD = auto()
    LAST_SOURCE_WORD = auto()
    FIRST_TARGET_WORD = auto()
    LAST_TARGET_WORD = auto()
    FIRST_WORDS = auto()
    LAST_WORDS = auto()
    SOURCE_LENGTH = auto()
    TARGET_LENGTH = auto()
    LENGTHS = auto()


@dataclass(frozen=True)
class Bags:
    """Features of phrase pairs: those of pair i are `keys_K[offsets[i]:offsets[i + 1]]`, with repetitions."""

    keys_K: Keys
    offsets: Offsets

    def __len__(self) -> int:
        return len(self.offsets) - 1

    @property
    def pair_K(self) -> Numbers:
        """The pair of each feature."""
        return np.repeat(np.arange(len(self)), np.diff(self.offsets))


def features_of(sources: Sequence[bytes], targets: Sequence[bytes]) -> Bags:
    """Return the features of phrase pairs, split into words at spaces and tabs.

    The order within a bag does not depend on the other pairs.
    """
    parts = list(_features(_Side.of(sources), _Side.of(targets)))
    keys_K, pair_K = (np.concatenate(arrays) for arrays in zip(*parts, strict=True))
    order = np.argsort(pair_K, kind="stable")
    return Bags(keys_K[order], offsets_of(np.bincount(pair_K, minlength=len(sources))))


@dataclass(frozen=True)
class _Side:
    """Hashes of the words of one side of all pairs."""

    words_N: Keys
    offsets: Offsets

    @classmethod
    def of(cls, phrases: Sequence[bytes]) -> _Side:
        lists = [split_words(phrase) for phrase in phrases]
        lengths = np.fromiter(map(len, lists), np.int64, len(lists))
        hashes = {word: _hash_word(word) for word in {word for words in lists for word in words}}
        flat = (hashes[word] for words in lists for word in words)
        return cls(np.fromiter(flat, np.uint64, int(lengths.sum())), offsets_of(lengths))

    @property
    def lengths_P(self) -> Numbers:
        return np.diff(self.offsets)

    @property
    def pair_N(self) -> Numbers:
        return np.repeat(np.arange(len(self.lengths_P)), self.lengths_P)

    def first(self, pairs: Numbers) -> Keys:
        return self.words_N[self.offsets[pairs]]

    def last(self, pairs: Numbers) -> Keys:
        return self.words_N[self.offsets[pairs + 1] - 1]


def _features(source: _Side, target: _Side) -> Iterator[tuple[Keys, Numbers]]:
    """Yield the features of each kind, and the pair of each feature."""
    yield _keys(Kind.TARGET_WORD, target.words_N), target.pair_N
    is_inside = np.diff(target.pair_N) == 0
    bigrams = target.words_N[:-1][is_inside], target.words_N[1:][is_inside]
    yield _keys(Kind.TARGET_BIGRAM, *bigrams), target.pair_N[1:][is_inside]
    of_each_N = target.lengths_P[source.pair_N]
    with_words = target.words_N[ranges(target.offsets[:-1][source.pair_N], of_each_N)]
    yield _keys(Kind.WORD_PAIR, np.repeat(source.words_N, of_each_N), with_words), np.repeat(source.pair_N, of_each_N)
    has_source, has_target = source.lengths_P > 0, target.lengths_P > 0
    for kinds, side, has_words in (
        ((Kind.FIRST_SOURCE_WORD, Kind.LAST_SOURCE_WORD), source, has_source),
        ((Kind.FIRST_TARGET_WORD, Kind.LAST_TARGET_WORD), target, has_target),
    ):
        pairs = np.flatnonzero(has_words)
        yield _keys(kinds[0], side.first(pairs)), pairs
        yield _keys(kinds[1], side.last(pairs)), pairs
    pairs = np.flatnonzero(has_source & has_target)
    yield _keys(Kind.FIRST_WORDS, source.first(pairs), target.first(pairs)), pairs
    yield _keys(Kind.LAST_WORDS, source.last(pairs), target.last(pairs)), pairs
    lengths = [side.lengths_P.astype(np.uint64) for side in (source, target)]
    every = np.arange(len(lengths[0]))
    yield _keys(Kind.SOURCE_LENGTH, lengths[0]), every
    yield _keys(Kind.TARGET_LENGTH, lengths[1]), every
    yield _keys(Kind.LENGTHS, *lengths), every


def _hash_word(word: bytes) -> int:
    return int.from_bytes(hashlib.blake2b(word, digest_size=8).digest(), "little")


def _keys(kind: Kind, first: Keys, second: Keys | None = None) -> Keys:
    """Return the hash of each feature of a kind, from the hashes of its words or its lengths."""
    kinds = np.full(len(first), kind, np.uint64)
    return hash_pairs(hash_pairs(kinds, first), np.zeros(len(first), np.uint64) if second is None else second)
