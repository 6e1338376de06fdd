"""What a linear function sees of phrase pairs: a bag of features of each.

TARGET_WORD                 which words are good to have at all
TARGET_BIGRAM               which of them go well together
WORD_PAIR                   which translate each other, anywhere in the pair
FIRST_..., LAST_...         where phrases may be cut, on either side and on both: the neighbours come from other pairs
..._LENGTH, LENGTHS         how long they should be, on either side and on both: many short pairs, or few long ones

A feature is known by 64 bits, made of its kind and the bytes of its words, so they are the same everywhere and no
vocabulary is needed. Of a million features two fall together once in 37 million times.

Shapes: P pairs, K features of all pairs, N words of one side of all pairs.
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
"""Changes with what the features are: functions of others are of no use then."""

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
    """Features of phrase pairs: those of pair i are `keys_K[offsets[i]:offsets[i + 1]]`, some of them twice."""

    keys_K: Keys
    offsets: Offsets

    def __len__(self) -> int:
        return len(self.offsets) - 1

    @property
    def pair_K(self) -> Numbers:
        """The pair that each feature is one of."""
        return np.repeat(np.arange(len(self)), np.diff(self.offsets))


def features_of(sources: Sequence[bytes], targets: Sequence[bytes]) -> Bags:
    """Return the features of pairs of phrases, whose words blanks and tabs separate.

    In each bag they come in the same order, whatever the other pairs are.
    """
    parts = list(_features(_Side.of(sources), _Side.of(targets)))
    keys_K, pair_K = (np.concatenate(arrays) for arrays in zip(*parts, strict=True))
    order = np.argsort(pair_K, kind="stable")
    return Bags(keys_K[order], offsets_of(np.bincount(pair_K, minlength=len(sources))))


@dataclass(frozen=True)
class _Side:
    """One side of all pairs: the hashes of its words."""

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
        """The pair that each word is in."""
        return np.repeat(np.arange(len(self.lengths_P)), self.lengths_P)

    def first(self, pairs: Numbers) -> Keys:
        """Return the first words of pairs, which must have one on this side."""
        return self.words_N[self.offsets[pairs]]

    def last(self, pairs: Numbers) -> Keys:
        return self.words_N[self.offsets[pairs + 1] - 1]


def _features(source: _Side, target: _Side) -> Iterator[tuple[Keys, Numbers]]:
    """Yield features of each kind, and the pair of each."""
    yield _keys(Kind.TARGET_WORD, target.words_N), target.pair_N
    is_inside = np.diff(target.pair_N) == 0
    bigrams = target.words_N[:-1][is_inside], target.words_N[1:][is_inside]
    yield _keys(Kind.TARGET_BIGRAM, *bigrams), target.pair_N[1:][is_inside]
    # Each source word with all words of its target.
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
    """Return 64 well-mixed bits for each feature of a kind, from what it is made of."""
    kinds = np.full(len(first), kind, np.uint64)
    return hash_pairs(hash_pairs(kinds, first), np.zeros(len(first), np.uint64) if second is None else second)
