"""The four scores of a phrase pair, and its line in the phrase table.

Relative frequencies and lexical weights in both directions, in single precision and with the six digits that Moses
prints (phrase-extract/score-main.cpp, consolidate-main.cpp).

Shape suffixes: K distinct phrase pairs; N words of one text.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from moses_integration.building.lexical import WordWeights
from moses_integration.building.pair_alignment import LONGEST_PHRASE, print_alignment
from moses_integration.building.phrase_pairs import CountedPairs

PHRASE_TABLE = "phrase-table.gz"
Floats = NDArray[np.float64]
Singles = NDArray[np.float32]


def phrase_table_lines(pairs: CountedPairs, spellings: list[bytes], weights: WordWeights) -> Iterator[bytes]:
    """Yield the pairs' lines.

    `source ||| target ||| scores ||| alignment ||| counts ||| |||`, where the scores are the probability and the
    lexical weight of the source given the target, then those of the target given the source; and the counts are those
    of the target, the source and the pair.
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
    for place in range(LONGEST_PHRASE):
        inside_K = np.flatnonzero(place < length_K)
        product_K[inside_K] *= weight_N[start_K[inside_K] + place]
    return product_K.astype(np.float32)


def _as_printed(count_K: NDArray[np.integer]) -> Singles:
    """Return counts as Moses reads them back between its two steps: from a million on, six digits are left."""
    printed_K = count_K.astype(np.float32)
    large = printed_K >= 1e6
    printed_K[large] = [float(f"{count:g}") for count in printed_K[large].tolist()]
    return printed_K
