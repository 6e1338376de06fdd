"""A cache of n-gram scores with a fixed size.

Shapes: Q n-grams, n words of an n-gram, S sets of W entries.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from phrasescore.phrases import mix

Keys = NDArray[np.uint64]
Scores = NDArray[np.float32]

_SETS, _WAYS = 1 << 20, 8
"""64 MB of lazily allocated memory. A set is one CPU cache line."""
_HALF = np.uint64(32)


class NgramCache:
    """A set-associative cache. In a full set, a new score replaces another one.

    The lower bits of an n-gram's hash select the set. An entry is one 64-bit number, the upper half of the hash and the
    score in 32 bits. With 8 entries of 32 hash bits, about one of 5 * 10^8 n-grams outside the cache is taken for
    another one.
    """

    def __init__(self) -> None:
        self._entries_SW = np.zeros((_SETS, _WAYS), np.uint64)

    def find(self, keys_Q: Keys) -> Scores:
        """Return the score of each n-gram; NaN for those that are not in the cache."""
        entries_QW = self._entries_SW[self._set_of(keys_Q)]
        matches_QW = (entries_QW >> _HALF) == _tag_of(keys_Q)[:, None]
        found_Q = entries_QW[np.arange(len(keys_Q)), matches_QW.argmax(axis=1)].astype(np.uint32).view(np.float32)
        return np.where(matches_QW.any(axis=1), found_Q, np.float32(np.nan))

    def add(self, keys_Q: Keys, scores_Q: Scores) -> None:
        """Add scores; if several n-grams of a call map to the same entry, one is kept."""
        sets_Q, tags_Q = self._set_of(keys_Q), _tag_of(keys_Q)
        is_free_QW = self._entries_SW[sets_Q] == 0
        way_Q = np.where(is_free_QW.any(axis=1), is_free_QW.argmax(axis=1), tags_Q % np.uint64(_WAYS))
        entries_Q = (tags_Q << _HALF) | scores_Q.view(np.uint32).astype(np.uint64)
        self._entries_SW[sets_Q, way_Q.astype(np.intp)] = entries_Q

    def _set_of(self, keys_Q: Keys) -> NDArray[np.intp]:
        return (keys_Q & np.uint64(len(self._entries_SW) - 1)).astype(np.intp)


def ngram_keys(words_Qn: Keys) -> Keys:
    """Return a hash of each n-gram of numbers of words."""
    keys_Q = np.zeros(len(words_Qn), np.uint64)
    for word_Q in words_Qn.T:
        keys_Q = mix(keys_Q ^ word_Q)
    return keys_Q


def _tag_of(keys_Q: Keys) -> Keys:
    """Return the upper half of each hash, but never 0, because an entry of 0 is free."""
    tags_Q: Keys = np.maximum(keys_Q >> _HALF, np.uint64(1))
    return tags_Q
