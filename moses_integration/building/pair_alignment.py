"""The word alignment within a phrase pair as one number, which compares as Moses compares alignments.

Moses holds for each target word the set of source words aligned to it, and of two alignments takes the one for greater
that has the greater set at the first target word where they differ; sets compare as their sorted lists of places do, an
empty one first. So the number has 7 bits for each target word, foremost for the first: the rank of its set among all
sets of 7 places (phrase-extract/ExtractionPhrasePair.cpp, FindBestAlignmentTargetToSource).

Shape suffixes: I alignments; W = 7 words, bits beyond the phrase being 0.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

LONGEST_PHRASE = 7
"""Words in the longest phrase: 7 sets of 7 places are what fits 64 bits."""

Alignments = NDArray[np.int64]
"""Alignments as numbers."""

_SETS = sorted([place for place in range(LONGEST_PHRASE) if bits >> place & 1] for bits in range(1 << LONGEST_PHRASE))
_BITS_OF_RANK = np.array([sum(1 << place for place in places) for places in _SETS], np.uint8)
_RANK_OF_BITS = np.argsort(_BITS_OF_RANK)


def number_alignments(bits_IW: NDArray[np.uint8]) -> Alignments:
    """Return the number of each alignment; in `bits_IW[i, t]`, bit s stands for the point of source s and target t."""
    number_I = np.zeros(len(bits_IW), np.int64)
    for bits_I in bits_IW.T:
        number_I = number_I << LONGEST_PHRASE | _RANK_OF_BITS[bits_I]
    return number_I


def transpose_alignments(number_I: Alignments) -> Alignments:
    """Return the number of each alignment seen from the other side: source and target change places."""
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
