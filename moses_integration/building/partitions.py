"""Count phrase pairs in bounded memory: occurrences are on disk, partitioned by their source phrase.

Every batch of sentences is extracted into a file whose rows are sorted by partition. Each partition is then counted
independently: it has all occurrences of its source phrases, and its lines follow those of the previous partition in the
tables. The occurrences of a target phrase are spread over partitions, so targets are counted separately, partitioned by
their own ranks. All three steps are tasks for processes or machines that share a folder. The partition bounds depend on
the text only.

Shape suffixes: I instances; R distinct ranks; J rows of a file of target ranks; P partitions.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from moses_integration.building.aligned_corpus import AlignedCorpus, load_array, save_array
from moses_integration.building.extraction import Instances, extract_phrase_pairs
from moses_integration.building.lexical import WordWeights
from moses_integration.building.phrase_order import phrase_ranks, rank_bounds
from moses_integration.building.phrase_pairs import Ranks, TargetCounts, count_phrase_pairs
from moses_integration.building.table_lines import (
    PHRASE_TABLE,
    REORDERING_TABLE,
    phrase_table_lines,
    reordering_table_lines,
)
from phrasescore.files import open_output

_WORDS_A_PARTITION = 1 << 18
"""Source words. They yield about a million instances, which take 100 MB while they are counted."""

Offsets = NDArray[np.int64]


@dataclass(frozen=True)
class Workspace:
    """A folder with the inputs and outputs of the tasks."""

    folder: Path
    longest: int
    """Words of the longest phrase."""
    partitions: int

    @classmethod
    def fill(cls, folder: Path, longest: int, corpus: AlignedCorpus, weights: WordWeights) -> Workspace:
        """Write the inputs of the tasks into a folder."""
        corpus.save(folder)
        save_array(folder, "source_weights", weights.source_N)
        save_array(folder, "target_weights", weights.target_N)
        for name, text in (("source_ranks", corpus.source), ("target_ranks", corpus.target)):
            save_array(folder, name, phrase_ranks(text, longest))
        return cls(folder, longest, -(-len(corpus.source.ids_N) // _WORDS_A_PARTITION) or 1)

    def table(self, partition: int, name: str) -> Path:
        """Return the file with the lines of a partition in one of the tables."""
        return self.folder / f"{partition}.{name}"

    def join_target_counts(self) -> None:
        """Concatenate the target counts of all partitions."""
        for name in ("target", "target_count"):
            counts = (load_array(self.folder, f"{name}.{number}") for number in range(self.partitions))
            save_array(self.folder, name, *counts)


class _Shared:
    """The inputs of the tasks, memory-mapped."""

    def __init__(self, space: Workspace) -> None:
        folder, corpus = space.folder, AlignedCorpus.load(space.folder)
        self.corpus = corpus
        self.ranks = Ranks(load_array(folder, "source_ranks"), load_array(folder, "target_ranks"))
        self.weights = WordWeights(load_array(folder, "target_weights"), load_array(folder, "source_weights"))
        self.source_bounds, self.target_bounds = (
            rank_bounds(len(text.ids_N), space.longest, space.partitions) for text in (corpus.source, corpus.target)
        )


_shared = lru_cache(maxsize=1)(_Shared)


@dataclass(frozen=True)
class Batch:
    """The sentences from `first` to before `end`; files of the batch have its number."""

    number: int
    first: int
    end: int


@dataclass(frozen=True)
class Extracted:
    """[P + 1] The offsets of each partition in the files of a batch."""

    instances: Offsets
    targets: Offsets


@dataclass(frozen=True)
class Partition:
    """The rows of a partition in the file of each batch."""

    number: int
    rows: list[slice]


def partitions_of(offsets: Iterable[Offsets]) -> list[Partition]:
    """Return the partitions by their offsets in the files of the batches."""
    rows = zip(*(map(slice, ends[:-1].tolist(), ends[1:].tolist()) for ends in offsets), strict=True)
    return [Partition(number, list(slices)) for number, slices in enumerate(rows)]


@dataclass(frozen=True)
class Extraction:
    """Task: extract the phrase pairs of a batch."""

    space: Workspace

    def __call__(self, batch: Batch) -> Extracted:
        """Write the instances and the count of each target among them."""
        shared, folder = _shared(self.space), self.space.folder
        instances = extract_phrase_pairs(shared.corpus, batch.first, batch.end, self.space.longest)
        partition_I = np.searchsorted(shared.source_bounds, shared.ranks.of_sources(instances), "right")
        order_I = np.argsort(partition_I, kind="stable")
        save_array(folder, f"instances.{batch.number}", instances.take(order_I).to_records())
        target_R, count_R = np.unique(shared.ranks.of_targets(instances), return_counts=True)
        save_array(folder, f"targets.{batch.number}", np.stack([target_R, count_R]).astype(np.int64))
        return Extracted(
            np.searchsorted(partition_I[order_I], np.arange(self.space.partitions + 1)),
            np.concatenate([[0], np.searchsorted(target_R, shared.target_bounds), [len(target_R)]]),
        )


@dataclass(frozen=True)
class TargetCounting:
    """Task: count the target phrases of a partition."""

    space: Workspace

    def __call__(self, partition: Partition) -> None:
        """Sum the counts of the batches."""
        folder = self.space.folder
        files = (load_array(folder, f"targets.{number}")[:, rows] for number, rows in enumerate(partition.rows))
        target_J, count_J = np.concatenate(list(files), axis=1)
        target_R, number_J = np.unique(target_J, return_inverse=True)
        save_array(folder, f"target.{partition.number}", target_R)
        save_array(
            folder, f"target_count.{partition.number}", np.bincount(number_J, count_J, len(target_R)).astype(np.int64)
        )


@dataclass(frozen=True)
class PairCounting:
    """Task: count the phrase pairs of a partition, and write its lines of the tables."""

    space: Workspace

    def __call__(self, partition: Partition) -> int:
        """Return the number of pairs."""
        shared, folder = _shared(self.space), self.space.folder
        files = (load_array(folder, f"instances.{number}")[rows] for number, rows in enumerate(partition.rows))
        instances = Instances.from_records(np.concatenate(list(files)))
        counts = TargetCounts(load_array(folder, "target"), load_array(folder, "target_count"))
        written = 0
        with (
            open_output(self.space.table(partition.number, PHRASE_TABLE)) as table,
            open_output(self.space.table(partition.number, REORDERING_TABLE)) as reordering,
        ):
            for pairs in count_phrase_pairs(instances, shared.ranks, counts):
                spellings = pairs.spell(shared.corpus)
                table.writelines(phrase_table_lines(pairs, spellings, shared.weights))
                reordering.writelines(reordering_table_lines(pairs, spellings))
                written += len(pairs)
        return written
