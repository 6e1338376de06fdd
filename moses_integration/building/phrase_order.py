"""Every phrase of a text as one number, in the order in which Moses sorts its tables.

Moses sorts lines `source ||| target ||| ...` as bytes (`LC_ALL=C sort`). So phrases are ordered word by word, and where
one is the beginning of another, as if the shorter went on with the word `|||`.

Shape suffixes: N words of the text; G groups of equal phrases of the length at hand.
"""

from __future__ import annotations

from bisect import bisect_left

import numpy as np
from numpy.typing import NDArray

from moses_integration.building.aligned_corpus import Text

Ranks = NDArray[np.unsignedinteger]

_OUTSIDE = -1
"""Id of what follows the last word of a sentence."""


def phrase_ranks(text: Text, longest: int) -> Ranks:
    """Return in row n - 1, column i the rank of the phrase of n words that begins at word i, for n up to `longest`.

    Equal phrases have equal ranks and others different ones, in Moses' order. [longest, words]; where a phrase would
    run over the end of its sentence the number means nothing.

    The words are sorted by what follows up to `longest` words on, like a suffix array. The phrases of n words that
    are equal are then neighbours; theirs is the interval from `start`. The line that ends such a phrase with `|||` has
    its place in that interval behind those followed by a smaller word, which `place` counts. At one and the same
    place, phrases that reach it from the left end there one inside the other, the longest first; those on its right
    begin there, the shortest first.
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
    """Return the lowest rank of each of some parts but the first, which have about equally many words' phrases."""
    return _ranks_a_word(longest) * (words * np.arange(1, parts) // parts)


def _ranks_a_word(longest: int) -> int:
    return 2 * longest + 2


def _following_words(text: Text, longest: int) -> list[NDArray[np.int32]]:
    """Return for k from 0 the id of the word k places after each word, `_OUTSIDE` past the end of its sentence."""
    sentence_N = text.sentence_N
    rows = [text.ids_N]
    for k in range(1, longest):
        row = np.full_like(text.ids_N, _OUTSIDE)
        inside = sentence_N[k:] == sentence_N[:-k]
        row[: len(inside)][inside] = text.ids_N[k:][inside]
        rows.append(row)
    return rows
