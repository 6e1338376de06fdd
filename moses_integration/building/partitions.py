"""Phrase pairs beyond memory: their instances lie on disk, parted by their source phrase.

Every batch of sentences is extracted into a file whose rows are sorted by partition. Then each partition is counted by
itself: it has all instances of its source phrases, and its lines of the tables follow those of the partition before
it. What its target phrases occur with lies in other partitions, too; so targets are counted apart, parted by their own
ranks. All three are tasks that processes or machines may share: what they need of the corpus lies in a folder that all
of them see. Where the corpus is cut depends on the text alone.

Shape suffixes: I instances; R distinct ranks; J rows of a file of target ranks; P partitions.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from moses_integration.building.aligned_corpus import AlignedCorpus
from moses_integration.building.extraction import Instances, extract_phrase_pairs
from moses_integration.building.lexical import WordWeights
from moses_integration.building.phrase_order import phrase_ranks, rank_bounds
from moses_integration.building.phrase_pairs import Ranks, TargetCounts, count_phrase_pairs
from moses_integration.building.phrase_scores import PHRASE_TABLE, phrase_table_lines
from moses_integration.building.reordering import REORDERING_TABLE, reordering_table_lines
from moses_integration.building.stored_arrays import load_array, save_array
from phrasescore.files import open_output

_WORDS_A_PARTITION = 1 << 18
"""Of the source text. They bring about a million instances, which take 100 MB while they are counted."""

Offsets = NDArray[np.int64]


@dataclass(frozen=True)
class Workspace:
    """A folder with what the tasks share, and with what they make."""

    folder: Path
    longest: int
    """Words of the longest phrase."""
    partitions: int

    @classmethod
    def fill(cls, folder: Path, longest: int, corpus: AlignedCorpus, weights: WordWeights) -> Workspace:
        """Write what the tasks need of a corpus into a folder."""
        corpus.save(folder)
        save_array(folder, "source_weights", weights.source_N)
        save_array(folder, "target_weights", weights.target_N)
        for name, text in (("source_ranks", corpus.source), ("target_ranks", corpus.target)):
            save_array(folder, name, phrase_ranks(text, longest))
        return cls(folder, longest, -(-len(corpus.source.ids_N) // _WORDS_A_PARTITION) or 1)

    def table(self, part: int, name: str) -> Path:
        """Return where the lines of a partition in one of the tables lie."""
        return self.folder / f"{part}.{name}"

    def join_target_counts(self) -> None:
        """Join what the partitions of the targets were counted to."""
        for name in ("target", "target_count"):
            save_array(
                self.folder, name, *(load_array(self.folder, f"{name}.{part}") for part in range(self.partitions))
            )


class _Shared:
    """What tasks read of a workspace; of the arrays only what is looked at comes into memory."""

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
    """Some sentences, whose instances get files with a number."""

    number: int
    first: int
    end: int
    """The sentence behind the last."""


@dataclass(frozen=True)
class Extracted:
    """Where in the files of a batch the rows of each partition begin, and behind them their number [P + 1]."""

    instances: Offsets
    targets: Offsets


@dataclass(frozen=True)
class Part:
    """The rows of a partition."""

    number: int
    rows: list[slice]
    """In the file of each batch."""


def parts_of(offsets: Iterable[Offsets]) -> list[Part]:
    """Return the partitions, by where their rows begin in the files of the batches."""
    rows = zip(*(map(slice, ends[:-1].tolist(), ends[1:].tolist()) for ends in offsets), strict=True)
    return [Part(number, list(of_part)) for number, of_part in enumerate(rows)]


@dataclass(frozen=True)
class Extraction:
    """The task of extracting the phrase pairs of a batch."""

    space: Workspace

    def __call__(self, batch: Batch) -> Extracted:
        """Write the instances, and how often each target occurs among them."""
        shared, folder = _shared(self.space), self.space.folder
        instances = extract_phrase_pairs(shared.corpus, batch.first, batch.end, self.space.longest)
        part_I = np.searchsorted(shared.source_bounds, shared.ranks.of_sources(instances), "right")
        order_I = np.argsort(part_I, kind="stable")
        save_array(folder, f"instances.{batch.number}", instances.take(order_I).to_records())
        target_R, count_R = np.unique(shared.ranks.of_targets(instances), return_counts=True)
        save_array(folder, f"targets.{batch.number}", np.stack([target_R, count_R]).astype(np.int64))
        return Extracted(
            np.searchsorted(part_I[order_I], np.arange(self.space.partitions + 1)),
            np.concatenate([[0], np.searchsorted(target_R, shared.target_bounds), [len(target_R)]]),
        )


@dataclass(frozen=True)
class TargetCounting:
    """The task of counting the target phrases of a partition."""

    space: Workspace

    def __call__(self, part: Part) -> None:
        """Add up what was counted in the batches."""
        folder = self.space.folder
        files = (load_array(folder, f"targets.{number}")[:, rows] for number, rows in enumerate(part.rows))
        target_J, count_J = np.concatenate(list(files), axis=1)
        target_R, number_J = np.unique(target_J, return_inverse=True)
        save_array(folder, f"target.{part.number}", target_R)
        save_array(
            folder, f"target_count.{part.number}", np.bincount(number_J, count_J, len(target_R)).astype(np.int64)
        )


@dataclass(frozen=True)
class PairCounting:
    """The task of counting the phrase pairs of a partition, and writing its lines of the tables."""

    space: Workspace

    def __call__(self, part: Part) -> int:
        """Return the number of pairs."""
        shared, folder = _shared(self.space), self.space.folder
        files = (load_array(folder, f"instances.{number}")[rows] for number, rows in enumerate(part.rows))
        instances = Instances.from_records(np.concatenate(list(files)))
        counts = TargetCounts(load_array(folder, "target"), load_array(folder, "target_count"))
        written = 0
        with (
            open_output(self.space.table(part.number, PHRASE_TABLE)) as table,
            open_output(self.space.table(part.number, REORDERING_TABLE)) as reordering,
        ):
            for pairs in count_phrase_pairs(instances, shared.ranks, counts):
                spellings = pairs.spell(shared.corpus)
                table.writelines(phrase_table_lines(pairs, spellings, shared.weights))
                reordering.writelines(reordering_table_lines(pairs, spellings))
                written += len(pairs)
        return written
