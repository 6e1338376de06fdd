"""The lines of the phrase table and of the reordering table, with the digits that Moses prints.

Scores are in single precision (phrase-extract/score-main.cpp, consolidate-main.cpp,
lexical-reordering/reordering_classes.cpp).

Shape suffixes: K distinct phrase pairs; N words of one text.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from moses_integration.building.lexical import Floats, WordWeights
from moses_integration.building.pair_alignment import LONGEST_PHRASE, print_alignment
from moses_integration.building.phrase_pairs import CountedPairs

PHRASE_TABLE = "phrase-table.gz"
REORDERING_TYPE = "wbe-msd-bidirectional-fe"
REORDERING_TABLE = f"reordering-table.{REORDERING_TYPE}.gz"
_SMOOTHING = 0.5

Singles = NDArray[np.float32]


def phrase_table_lines(pairs: CountedPairs, spellings: list[bytes], weights: WordWeights) -> Iterator[bytes]:
    """Yield `source ||| target ||| scores ||| alignment ||| counts ||| |||` for each pair.

    Scores: probability and lexical weight of the source given the target, then of the target given the source.
    Counts: of the target, the source and the pair.
    """
    source_count_K, target_count_K, count_K = map(
        _as_printed, (pairs.source_count_K, pairs.target_count_K, pairs.count_K)
    )
    kept, kept_inverse = pairs.kept, pairs.kept_inverse
    columns = (
        count_K / target_count_K,
        _product(weights.source_N, kept_inverse.source_start_I, kept_inverse.source_length_I),
        count_K / source_count_K,
        _product(weights.target_N, kept.target_start_I, kept.target_length_I),
        kept.alignment_I,
        target_count_K,
        source_count_K,
        count_K,
    )
    for spelling, *scores, alignment, target, source, both in zip(
        spellings, *(column.tolist() for column in columns), strict=True
    ):
        yield b"%b ||| %g %g %g %g ||| %b ||| %g %g %g ||| |||\n" % (
            spelling,
            *scores,
            print_alignment(alignment),
            target,
            source,
            both,
        )


def _product(weight_N: Floats, start_K: NDArray[np.int32], length_K: NDArray[np.int8]) -> Singles:
    """Return the product of the weights of each phrase's words, multiplied in their order."""
    product_K = np.ones(len(start_K))
    for position in range(LONGEST_PHRASE):
        inside_K = np.flatnonzero(position < length_K)
        product_K[inside_K] *= weight_N[start_K[inside_K] + position]
    return product_K.astype(np.float32)


def _as_printed(count_K: NDArray[np.integer]) -> Singles:
    """Round counts from a million on to six digits, because Moses prints and rereads them between its two steps."""
    printed_K = count_K.astype(np.float32)
    large = printed_K >= 1e6
    printed_K[large] = [float(f"{count:g}") for count in printed_K[large].tolist()]
    return printed_K


def reordering_table_lines(pairs: CountedPairs, spellings: list[bytes]) -> Iterator[bytes]:
    """Yield `source ||| target ||| probabilities` for each pair.

    Probabilities: monotone, swap and discontinuous orientation to the previous phrase, then to the following one.
    """
    counts_K33 = pairs.orientation_count_K9.reshape(-1, 3, 3)
    previous, following = counts_K33.sum(axis=2).tolist(), counts_K33.sum(axis=1).tolist()
    for spelling, before, after in zip(spellings, previous, following, strict=True):
        yield b"%b ||| %b %b\n" % (spelling, _print_distribution(*before), _print_distribution(*after))


@lru_cache(maxsize=1 << 16)
def _print_distribution(*orientation_counts: int) -> bytes:
    smoothed = [count + _SMOOTHING for count in orientation_counts]
    return b"%g %g %g" % tuple(count / sum(smoothed) for count in smoothed)
