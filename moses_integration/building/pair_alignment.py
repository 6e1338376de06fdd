"""The word alignment within a phrase pair as one integer, in Moses' order of alignments.

Moses stores for each target word the set of source words aligned to it, and compares alignments at the first target
word where they differ. Sets compare as their sorted lists of positions, the empty set first. So the integer has 7 bits
for each target word, the first word in the highest bits: the rank of its set among all sets of 7 positions
(phrase-extract/ExtractionPhrasePair.cpp, FindBestAlignmentTargetToSource).

Shape suffixes: I alignments; W = 7 words, with bits of 0 beyond the phrase.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

LONGEST_PHRASE = 7
"""Words of the longest phrase: 7 sets of 7 positions fit into 64 bits."""

Alignments = NDArray[np.int64]

_SETS = sorted([word for word in range(LONGEST_PHRASE) if bits >> word & 1] for bits in range(1 << LONGEST_PHRASE))
_BITS_OF_RANK = np.array([sum(1 << word for word in words) for words in _SETS], np.uint8)
_RANK_OF_BITS = np.argsort(_BITS_OF_RANK)


def number_alignments(bits_IW: NDArray[np.uint8]) -> Alignments:
    """Return the number of each alignment; bit s of `bits_IW[i, t]` is the point of source s and target t."""
    number_I = np.zeros(len(bits_IW), np.int64)
    for bits_I in bits_IW.T:
        number_I = number_I << LONGEST_PHRASE | _RANK_OF_BITS[bits_I]
    return number_I


def transpose_alignments(number_I: Alignments) -> Alignments:
    """Return the number of each alignment with source and target exchanged."""
    shifts = LONGEST_PHRASE * np.arange(LONGEST_PHRASE)[::-1]
    bits_IW1 = _BITS_OF_RANK[number_I[:, None] >> shifts & (1 << LONGEST_PHRASE) - 1][..., None]
    points_IWW = np.unpackbits(bits_IW1, axis=2, count=LONGEST_PHRASE, bitorder="little")
    return number_alignments(np.packbits(points_IWW, axis=1, bitorder="little")[:, 0])


@lru_cache(maxsize=1 << 16)
def print_alignment(number: int) -> bytes:
    """Return the alignment as `source-target` points, ordered by target, then source word."""
    points = []
    for target in range(LONGEST_PHRASE):
        rank = number >> LONGEST_PHRASE * (LONGEST_PHRASE - 1 - target) & (1 << LONGEST_PHRASE) - 1
        points += [b"%d-%d" % (source, target) for source in _SETS[rank]]
    return b" ".join(points)
