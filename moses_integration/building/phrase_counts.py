"""Count distinct phrase pairs, and print their lines of the phrase table and of the reordering table.

Moses sorts lines `source ||| target ||| ...` as bytes (`LC_ALL=C sort`), so phrases have ranks in that order. Scores
are in single precision, with the digits that Moses prints (phrase-extract/score-main.cpp, consolidate-main.cpp,
lexical-reordering/reordering_classes.cpp).

Shape suffixes: N words of one text; G groups of equal phrases of one length; I instances of phrase pairs; R runs of
instances of one pair with one alignment; K distinct phrase pairs; 9 = 3 x 3 orientations.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from moses_integration.building.aligned_corpus import Text
from moses_integration.building.extraction import (
    LONGEST_PHRASE,
    Alignments,
    Instances,
    print_alignment,
    transpose_alignments,
)

Floats = NDArray[np.float64]
Integers = NDArray[np.integer]
Singles = NDArray[np.float32]

_OUTSIDE = -1
"""Id after the last word of a sentence."""
_SMOOTHING = 0.5


def phrase_ranks(text: Text, longest: int) -> Integers:
    """Return the ranks of all phrases of up to `longest` words, [longest, words].

    Row n - 1, column i is the rank of the phrase of n words that begins at word i. Equal phrases have equal ranks.
    Where a phrase would extend beyond its sentence, the rank is meaningless, but other than those of its row's phrases.

    Phrases are ordered word by word, and a phrase sorts as if the word `|||` followed it. The words are sorted by the
    next `longest` words, like a suffix array. Equal phrases of n words are then adjacent, in an interval from `start`.
    The line of such a phrase, which continues with `|||`, sorts within that interval after the `before` phrases that
    continue with a smaller word. Of nested phrases with the same position, those that end there come first, the longest
    first, then those that begin there, the shortest first.
    """
    following = _following_words(text, longest)
    order_N = np.lexsort(following[::-1])
    smaller_words = bisect_left(text.words, b"|||")
    stride = _ranks_a_word(longest)
    ranks = np.empty((longest, len(order_N)), np.min_scalar_type(stride * (len(order_N) + 1)))
    differs_N = np.arange(len(order_N)) == 0
    for n in range(1, longest + 1):
        word_N = following[n - 1][order_N]
        differs_N[1:] |= word_N[1:] != word_N[:-1]
        start_G = np.flatnonzero(differs_N)
        before_G = np.zeros_like(start_G)
        if n < longest:
            before_G = np.add.reduceat(following[n][order_N] < smaller_words, start_G, dtype=np.int64)
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
    sentence_N = np.repeat(np.arange(len(text.offsets) - 1, dtype=np.int32), np.diff(text.offsets))
    rows = [text.ids_N]
    for k in range(1, longest):
        row = np.full_like(text.ids_N, _OUTSIDE)
        inside = sentence_N[k:] == sentence_N[:-k]
        row[: len(inside)][inside] = text.ids_N[k:][inside]
        rows.append(row)
    return rows


def sum_over_equal_phrases(ranks: Integers, counts: NDArray[np.int32]) -> NDArray[np.int32]:
    """Return the sum of `counts` over all equal phrases, at each of their occurrences, [longest, words]."""
    sums = np.empty_like(counts)
    for rank_N, count_N, sum_N in zip(ranks, counts, sums, strict=True):
        _, phrase_N = np.unique(rank_N, return_inverse=True)
        sum_N[:] = np.bincount(phrase_N, count_N)[phrase_N]
    return sums


@dataclass(frozen=True)
class CountedPairs:
    """Distinct phrase pairs with their counts."""

    kept_K: Instances
    """An instance of each pair with its most frequent alignment, which the table shows."""
    kept_inverse_K: Instances
    """The same for the inverse direction, where Moses may break ties between alignments differently."""
    count_K: Integers
    source_count_K: Integers
    """Count of the source phrase with any target."""
    orientation_count_K9: Integers


def count_phrase_pairs(instances_I: Instances, source_ranks: Integers, target_ranks: Integers) -> CountedPairs:
    """Return the distinct pairs in the order of the tables; the instances include all those of their source phrases."""
    source_rank_I = source_ranks[instances_I["source_length"] - 1, instances_I["source_start"]]
    target_rank_I = target_ranks[instances_I["target_length"] - 1, instances_I["target_start"]]
    order_I = np.lexsort((instances_I["alignment"], target_rank_I, source_rank_I))
    instances_I, source_rank_I, target_rank_I = instances_I[order_I], source_rank_I[order_I], target_rank_I[order_I]
    begins_source_I = _begins_run(source_rank_I)
    begins_pair_I = begins_source_I | _begins_run(target_rank_I)
    run_R = np.flatnonzero(begins_pair_I | _begins_run(instances_I["alignment"]))
    pair_R = np.cumsum(begins_pair_I[run_R]) - 1
    run_count_R = np.diff(run_R, append=len(instances_I))
    alignment_R = instances_I["alignment"][run_R]
    start_K = np.flatnonzero(begins_pair_I)
    count_K = np.diff(start_K, append=len(instances_I))
    source_start = np.flatnonzero(begins_source_I[start_K])
    source_count = np.add.reduceat(count_K, source_start)
    pair_I = np.repeat(np.arange(len(start_K)), count_K)
    return CountedPairs(
        instances_I[run_R[_last_most_frequent(pair_R, run_count_R, alignment_R)]],
        instances_I[run_R[_last_most_frequent(pair_R, run_count_R, transpose_alignments(alignment_R))]],
        count_K,
        np.repeat(source_count, np.diff(source_start, append=len(start_K))),
        np.bincount(9 * pair_I + instances_I["orientation"], minlength=9 * len(start_K)).reshape(-1, 9),
    )


def _begins_run(value_I: Integers) -> NDArray[np.bool_]:
    """Whether each value differs from the one before it."""
    return np.append(True, value_I[1:] != value_I[:-1])


def _last_most_frequent(pair_R: Integers, count_R: Integers, alignment_R: Alignments) -> Integers:
    """Return the run with the highest count of each pair; the greatest alignment breaks ties."""
    order: NDArray[np.intp] = np.lexsort((alignment_R, count_R, pair_R))
    last: NDArray[np.intp] = order[np.append(np.flatnonzero(np.diff(pair_R)), len(pair_R) - 1)]
    return last


def spell(spelling: NDArray[np.uint8], bytes_N: Integers, start_K: Integers, length_K: Integers) -> Iterator[bytes]:
    """Yield phrases as text; see `Text`."""
    text = spelling.data
    for begin, end in zip(bytes_N[start_K].tolist(), (bytes_N[start_K + length_K] - 1).tolist(), strict=True):
        yield bytes(text[begin:end])


def phrase_table_lines(
    pairs: CountedPairs, spellings: list[bytes], target_count_K: Integers, weights: tuple[Floats, Floats]
) -> Iterator[bytes]:
    """Yield `source ||| target ||| scores ||| alignment ||| counts ||| |||` for each pair.

    Scores: probability and lexical weight of the source given the target, then of the target given the source.
    Counts: of the target, the source and the pair. `weights` are those of each source and each target word.
    """
    kept_K, inverse_K = pairs.kept_K, pairs.kept_inverse_K
    source_K, target_K, both_K = map(_as_printed, (pairs.source_count_K, target_count_K, pairs.count_K))
    columns = (
        both_K / target_K,
        _product(weights[0], inverse_K["source_start"], inverse_K["source_length"]),
        both_K / source_K,
        _product(weights[1], kept_K["target_start"], kept_K["target_length"]),
        kept_K["alignment"],
        target_K,
        source_K,
        both_K,
    )
    for spelling, *scores, alignment, target, source, both in zip(
        spellings, *(column.tolist() for column in columns), strict=True
    ):
        fields = spelling, *scores, print_alignment(alignment), target, source, both
        yield b"%b ||| %g %g %g %g ||| %b ||| %g %g %g ||| |||\n" % fields


def _product(weight_N: Floats, start_K: Integers, length_K: Integers) -> Singles:
    """Return the product of the weights of each phrase's words, multiplied in their order."""
    product_K = np.ones(len(start_K))
    for position in range(LONGEST_PHRASE):
        inside_K = np.flatnonzero(position < length_K)
        product_K[inside_K] *= weight_N[start_K[inside_K] + position]
    return product_K.astype(np.float32)


def _as_printed(count_K: Integers) -> Singles:
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
