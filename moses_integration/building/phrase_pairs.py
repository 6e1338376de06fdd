"""Count distinct phrase pairs in the order of Moses' tables, in blocks of bounded size.

Shape suffixes: I instances; R runs of instances of one pair with one alignment; K distinct phrase pairs; 9 = 3 x 3
orientations.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from moses_integration.building.aligned_corpus import AlignedCorpus, Text
from moses_integration.building.extraction import Instances
from moses_integration.building.pair_alignment import Alignments, transpose_alignments

_BLOCK_INSTANCES = 1 << 18

Integers = NDArray[np.integer]


@dataclass(frozen=True)
class Ranks:
    """The results of `phrase_ranks` for both texts."""

    source: Integers
    target: Integers

    def of_sources(self, instances: Instances) -> Integers:
        """Return the rank of each instance's source [I]."""
        rank_I: Integers = self.source[instances.source_length_I - 1, instances.source_start_I]
        return rank_I

    def of_targets(self, instances: Instances) -> Integers:
        """Return the rank of each instance's target [I]."""
        rank_I: Integers = self.target[instances.target_length_I - 1, instances.target_start_I]
        return rank_I


@dataclass(frozen=True)
class TargetCounts:
    """Counts of target phrases among all instances."""

    ranks: Integers
    """Sorted."""
    counts: Integers

    def of(self, rank_K: Integers) -> Integers:
        """Look up counts by rank [K]."""
        count_K: Integers = self.counts[np.searchsorted(self.ranks, rank_K)]
        return count_K


@dataclass(frozen=True)
class CountedPairs:
    """Distinct phrase pairs with their counts."""

    kept: Instances
    """[K] An instance of each pair with its most frequent alignment, which the table shows."""
    kept_inverse: Instances
    """[K] The same for the inverse direction, where Moses may break ties between alignments differently."""
    count_K: Integers
    source_count_K: Integers
    """Count of the source phrase with any target."""
    target_count_K: Integers
    """Count of the target phrase with any source."""
    orientation_count_K9: Integers
    """Count of each value of `Instances.orientation_I`."""

    def __len__(self) -> int:
        return len(self.count_K)

    def spell(self, corpus: AlignedCorpus) -> list[bytes]:
        """Return `source ||| target` for each pair."""
        sources = _spell(corpus.source, self.kept.source_start_I, self.kept.source_length_I)
        targets = _spell(corpus.target, self.kept.target_start_I, self.kept.target_length_I)
        return [b"%b ||| %b" % pair for pair in zip(sources, targets, strict=True)]


def count_phrase_pairs(instances: Instances, ranks: Ranks, target_counts: TargetCounts) -> Iterator[CountedPairs]:
    """Yield the distinct pairs among the instances, in blocks of bounded size that never divide a source phrase.

    The instances include all occurrences of their source phrases; `target_counts` covers the whole corpus.
    """
    if not len(instances):
        return
    source_rank_I, target_rank_I = ranks.of_sources(instances), ranks.of_targets(instances)
    starts = np.unique(np.sort(source_rank_I)[::_BLOCK_INSTANCES])
    block_I = (np.searchsorted(starts, source_rank_I, "right") - 1).astype(np.min_scalar_type(len(starts)))
    order_I = np.argsort(block_I, kind="stable")
    for block in np.split(order_I, np.searchsorted(block_I[order_I], np.arange(1, len(starts)))):
        source_rank, target_rank = source_rank_I[block], target_rank_I[block]
        order = np.lexsort((instances.alignment_I[block], target_rank, source_rank))
        yield _count(instances.take(block[order]), source_rank[order], target_rank[order], target_counts)


def _count(
    instances: Instances, source_rank_I: Integers, target_rank_I: Integers, target_counts: TargetCounts
) -> CountedPairs:
    """Count the pairs among instances sorted by source, target and alignment."""
    begins_source_I = _begins_run(source_rank_I)
    begins_pair_I = begins_source_I | _begins_run(target_rank_I)
    run_R = np.flatnonzero(begins_pair_I | _begins_run(instances.alignment_I))
    pair_R = np.cumsum(begins_pair_I[run_R]) - 1
    run_count_R = np.diff(run_R, append=len(instances))
    alignment_R = instances.alignment_I[run_R]
    start_K = np.flatnonzero(begins_pair_I)
    count_K = np.diff(start_K, append=len(instances))
    source_start = np.flatnonzero(begins_source_I[start_K])
    source_count = np.add.reduceat(count_K, source_start)
    pair_I = np.repeat(np.arange(len(start_K)), count_K)
    return CountedPairs(
        instances.take(run_R[_last_most_frequent(pair_R, run_count_R, alignment_R)]),
        instances.take(run_R[_last_most_frequent(pair_R, run_count_R, transpose_alignments(alignment_R))]),
        count_K,
        np.repeat(source_count, np.diff(source_start, append=len(start_K))),
        target_counts.of(target_rank_I[start_K]),
        np.bincount(9 * pair_I + instances.orientation_I, minlength=9 * len(start_K)).reshape(-1, 9),
    )


def _begins_run(value_I: Integers) -> NDArray[np.bool_]:
    """Whether each value differs from the one before it."""
    return np.append(True, value_I[1:] != value_I[:-1])


def _last_most_frequent(pair_R: Integers, count_R: Integers, alignment_R: Alignments) -> Integers:
    """Return the run with the highest count of each pair; the greatest alignment breaks ties."""
    order: NDArray[np.intp] = np.lexsort((alignment_R, count_R, pair_R))
    last: NDArray[np.intp] = order[np.append(np.flatnonzero(np.diff(pair_R)), len(pair_R) - 1)]
    return last


def _spell(text: Text, start_K: Integers, length_K: Integers) -> Iterator[bytes]:
    begins, ends = text.bytes_N[start_K], text.bytes_N[start_K + length_K] - 1
    for begin, end in zip(begins.tolist(), ends.tolist(), strict=True):
        yield text.spelling[begin:end]
