"""From two tokenised texts and their word alignment to Moses' translation tables: train-model.perl's steps 4 to 7.

Memory is bounded, because a text has several phrase pairs for each word. A task extracts the phrase pairs of a batch
of sentences into a file, sorted by partition; a second task counts all pairs of a partition. A partition has a range of
source phrases, so its lines follow those of the previous one in the tables.

Shape suffixes: I instances; K distinct phrase pairs.
"""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from moses_integration.building.aligned_corpus import AlignedCorpus, read_aligned_corpus
from moses_integration.building.extraction import LONGEST_PHRASE, extract_phrase_pairs
from moses_integration.building.lexical import LexicalModel, estimate_lexical_model, write_lexical_tables
from moses_integration.building.phrase_counts import (
    count_phrase_pairs,
    phrase_ranks,
    phrase_table_lines,
    rank_bounds,
    reordering_table_lines,
    spell,
    sum_over_equal_phrases,
)
from phrasescore.aligned_phrases import AlignedSentences
from phrasescore.errors import UserError
from phrasescore.files import full_disk_as_error, open_output
from phrasescore.phrases import Offsets
from phrasescore.text import ProgressCallback, no_progress
from phrasescore.workers import Workers, available_cores, map_ordered, start_workers

PHRASE_TABLE = "phrase-table.gz"
REORDERING_TYPE = "wbe-msd-bidirectional-fe"
REORDERING_TABLE = f"reordering-table.{REORDERING_TYPE}.gz"

_SIDES = ("source", "target")
_WORDS_A_PARTITION = 1 << 16
"""Source words. They yield about 300,000 instances, which take 100 MB while they are counted."""
_EXTRACTING = 0.3
"""Approximate share of the time for extracting phrase pairs; the rest is for counting them."""
_KILLED = "counting phrase pairs: a process was killed, probably because memory ran out; use fewer processes"


@dataclass(frozen=True)
class TableCounts:
    """Sizes of the input, of the lexical tables, and of the other tables."""

    sentence_pairs: int
    alignment_points: int
    word_pairs: int
    extracted: int
    """Occurrences of phrase pairs."""
    phrase_pairs: int


def build_tables(
    source: Path,
    target: Path,
    alignment: Path,
    folder: Path,
    max_phrase_length: int = LONGEST_PHRASE,
    processes: int | None = None,
    scheduler: str | None = None,
    progress: ProgressCallback = no_progress,
) -> TableCounts:
    """Write `lex.f2e`, `lex.e2f`, the phrase table and the reordering table into `folder`.

    The tables are byte for byte those of train-model.perl with `-reordering msd-bidirectional-fe` and its other
    defaults, except that the lexical tables, which Moses leaves unordered, are sorted. They do not depend on
    `processes` and `scheduler` (see `start_workers`).
    """
    with TemporaryDirectory(prefix=".partitions.", dir=folder) as scratch:
        corpus = read_aligned_corpus(source, target, alignment)
        lexical_model = estimate_lexical_model(corpus)
        aligned, words = corpus.aligned, (corpus.source.words, corpus.target.words)
        tasks = _Tasks.prepare(Path(scratch), max_phrase_length, corpus, lexical_model)
        # The tasks read the words from files.
        del corpus
        batches = list(aligned.batches())
        processes = min(processes or available_cores(), max(len(batches), tasks.partitions))
        with start_workers(_KILLED, processes, scheduler) as workers:
            offsets = _extract(tasks, batches, workers, progress)
            extracted = sum(int(offset[-1]) for offset in offsets)
            if not extracted:
                raise UserError(
                    f"{alignment}: yields no phrase pair; give more sentence pairs whose lines translate each other, "
                    "and an alignment of these texts, source first"
                )
            pairs = _write_tables(tasks, offsets, folder, workers, progress)
            write_lexical_tables(lexical_model, words, folder)
    sentences, points, word_pairs = len(aligned.source_offsets) - 1, len(aligned.source_P), len(lexical_model.source_L)
    return TableCounts(sentences, points, word_pairs, extracted, pairs)


def _extract(
    tasks: _Tasks, batches: list[tuple[int, int]], workers: Workers, progress: ProgressCallback
) -> list[Offsets]:
    """Extract all batches, and count target phrases; return the offset of each partition in the file of each batch."""
    offsets, target_counts = [], []
    numbered = [(number, *batch) for number, batch in enumerate(batches)]
    for offset, counts in map_ordered(tasks.extract, numbered, workers):
        offsets.append(offset)
        target_counts.append(counts)
        progress(_EXTRACTING * len(offsets) / len(batches), "extracting phrase pairs")
    counts = np.concatenate(target_counts, axis=1)
    target_counts.clear()
    tasks.write("target_counts", sum_over_equal_phrases(tasks.read("target_ranks"), counts))
    return offsets


def _write_tables(
    tasks: _Tasks, offsets: list[Offsets], folder: Path, workers: Workers, progress: ProgressCallback
) -> int:
    """Count the partitions and write their lines in order; return the number of phrase pairs."""
    pairs = 0
    partitions = [
        (number, [slice(*offset[number : number + 2]) for offset in offsets]) for number in range(tasks.partitions)
    ]
    with (
        open_output(folder / PHRASE_TABLE, is_compressed=True) as table,
        open_output(folder / REORDERING_TABLE, is_compressed=True) as reordering,
    ):
        for number, written in enumerate(map_ordered(tasks.count, partitions, workers)):
            _move(tasks.table(number, PHRASE_TABLE), table)
            _move(tasks.table(number, REORDERING_TABLE), reordering)
            pairs += written
            share = (number + 1) / len(partitions)
            progress(_EXTRACTING + (1 - _EXTRACTING) * share, "counting phrase pairs")
    return pairs


def _move(member: Path, stream: BinaryIO) -> None:
    with member.open("rb") as file:
        shutil.copyfileobj(file, stream)
    member.unlink()


@dataclass(frozen=True)
class _Tasks:
    """The two tasks, for processes or machines that share a folder. They exchange arrays as files in it."""

    folder: Path
    longest: int
    """Words of the longest phrase."""
    partitions: int

    @classmethod
    def prepare(cls, folder: Path, longest: int, corpus: AlignedCorpus, lexical_model: LexicalModel) -> _Tasks:
        tasks = cls(folder, longest, -(-len(corpus.source.ids_N) // _WORDS_A_PARTITION) or 1)
        for name, array in corpus.aligned._asdict().items():
            tasks.write(name, array)
        tasks.write("source_weights", lexical_model.source_weight_N)
        tasks.write("target_weights", lexical_model.target_weight_N)
        for side, text in (("source", corpus.source), ("target", corpus.target)):
            tasks.write(f"{side}_ranks", phrase_ranks(text, longest))
            tasks.write(f"{side}_spelling", text.spelling)
            tasks.write(f"{side}_bytes", text.bytes_N)
        return tasks

    def write(self, name: str, array: NDArray[Any]) -> None:
        path = self.folder / f"{name}.npy"
        # Not `np.save`, which does not report the reason if the disk is full.
        with full_disk_as_error(str(path)), path.open("wb") as file:
            np.lib.format.write_array_header_1_0(file, np.lib.format.header_data_from_array_1_0(array))
            file.write(np.ascontiguousarray(array).data)

    def read(self, name: str) -> NDArray[Any]:
        array: NDArray[Any] = np.load(self.folder / f"{name}.npy", mmap_mode="r")
        return array

    def table(self, partition: int, name: str) -> Path:
        return self.folder / f"{partition}.{name}"

    def extract(self, batch: tuple[int, int, int]) -> tuple[Offsets, NDArray[np.int32]]:
        """Write the instances of batch `number`, the sentences `first` to before `end`, sorted by partition.

        Return the offset of each partition in the file, and the count of the target phrase of each length at each word.
        """
        number, first, end = batch
        aligned = AlignedSentences(*map(self.read, AlignedSentences._fields))
        instances_I = extract_phrase_pairs(aligned, first, end, self.longest)
        ranks = self.read("source_ranks")
        rank_I = ranks[instances_I["source_length"] - 1, instances_I["source_start"]]
        bounds = rank_bounds(ranks.shape[1], self.longest, self.partitions)
        partition_I = np.searchsorted(bounds, rank_I, "right")
        order_I = np.argsort(partition_I, kind="stable")
        self.write(f"instances.{number}", instances_I[order_I])
        first_word, end_word = aligned.target_offsets[[first, end]]
        target_words = int(end_word - first_word)
        cell_I = (instances_I["target_length"].astype(np.int64) - 1) * target_words
        cell_I += instances_I["target_start"] - first_word
        counts = np.bincount(cell_I, minlength=self.longest * target_words).astype(np.int32)
        return (
            np.searchsorted(partition_I[order_I], np.arange(self.partitions + 1)),
            counts.reshape(self.longest, target_words),
        )

    def count(self, partition: tuple[int, list[slice]]) -> int:
        """Write the lines of a partition, given its rows in the file of each batch; return the number of pairs."""
        number, rows = partition
        files = [self.read(f"instances.{batch}")[some] for batch, some in enumerate(rows)]
        instances_I = np.concatenate(files)
        with (
            open_output(self.table(number, PHRASE_TABLE)) as table,
            open_output(self.table(number, REORDERING_TABLE)) as reordering,
        ):
            if not len(instances_I):
                return 0
            pairs = count_phrase_pairs(instances_I, self.read("source_ranks"), self.read("target_ranks"))
            spans = {side: (pairs.kept_K[f"{side}_start"], pairs.kept_K[f"{side}_length"]) for side in _SIDES}
            sides = (spell(self.read(f"{side}_spelling"), self.read(f"{side}_bytes"), *spans[side]) for side in _SIDES)
            spellings = [b"%b ||| %b" % pair for pair in zip(*sides, strict=True)]
            start_K, length_K = spans["target"]
            target_count_K = self.read("target_counts")[length_K - 1, start_K]
            weights = self.read("source_weights"), self.read("target_weights")
            table.writelines(phrase_table_lines(pairs, spellings, target_count_K, weights))
            reordering.writelines(reordering_table_lines(pairs, spellings))
        return len(spellings)
