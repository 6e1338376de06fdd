"""Rank every phrase of a text in the order in which Moses sorts its tables.

Moses sorts lines `source ||| target ||| ...` as bytes (`LC_ALL=C sort`). So phrases are ordered word by word, and a
phrase sorts as if the word `|||` followed it.

Shape suffixes: N words of the text; G groups of equal phrases of one length.
"""

from __future__ import annotations

from bisect import bisect_left

import numpy as np
from numpy.typing import NDArray

from moses_integration.building.aligned_corpus import Text

Ranks = NDArray[np.unsignedinteger]

_OUTSIDE = -1
"""Id after the last word of a sentence."""


def phrase_ranks(text: Text, longest: int) -> Ranks:
    """Return the ranks of all phrases of up to `longest` words, [longest, words].

    Row n - 1, column i is the rank of the phrase of n words that begins at word i. Equal phrases have equal ranks.
    Where a phrase would extend beyond its sentence, the rank is meaningless.

    The words are sorted by the next `longest` words, like a suffix array. Equal phrases of n words are then adjacent,
    in an interval from `start`. The line of such a phrase, which continues with `|||`, sorts within that interval after
    the `before` phrases that continue with a smaller word. Of nested phrases with the same position, those that end
    there come first, the longest first, then those that begin there, the shortest first.
    """
    following = _following_words(text, longest)
    order_N = np.lexsort(following[::-1])
    smaller_words = bisect_left(text.words, b"|||")
    stride = _ranks_a_word(longest)
    rank_type = np.min_scalar_type(stride * (len(order_N) + 1))
    ranks = np.empty((longest, len(order_N)), rank_type)
    differs_N = np.arange(len(order_N)) == 0
    for n in range(1, longest + 1):
        word_N = following[n - 1][order_N]
        differs_N[1:] |= word_N[1:] != word_N[:-1]
        start_G = np.flatnonzero(differs_N)
        if n < longest:
            before_G = np.add.reduceat(following[n][order_N] < smaller_words, start_G, dtype=np.int64)
        else:
            before_G = np.zeros_like(start_G)
        rank_G = stride * (start_G + before_G) + longest + np.where(before_G > 0, -n, n)
        ranks[n - 1, order_N] = np.repeat(rank_G, np.diff(start_G, append=len(order_N)))
    return ranks


def rank_bounds(words: int, longest: int, parts: int) -> NDArray[np.int64]:
    """Return the bounds between `parts` ranges of ranks, each with the phrases of about equally many words."""
    return _ranks_a_word(longest) * (words * np.arange(1, parts) // parts)


def _ranks_a_word(longest: int) -> int:
    return 2 * longest + 2


def _following_words(text: Text, longest: int) -> list[NDArray[np.int32]]:
    """Return row k: the id of the word k positions after each word, `_OUTSIDE` after the end of its sentence."""
    sentence_N = text.sentence_N
    rows = [text.ids_N]
    for k in range(1, longest):
        row = np.full_like(text.ids_N, _OUTSIDE)
        inside = sentence_N[k:] == sentence_N[:-k]
        row[: len(inside)][inside] = text.ids_N[k:][inside]
        rows.append(row)
    return rows
