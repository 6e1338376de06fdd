"""From two tokenised texts and their word alignment to Moses' translation tables: train-model.perl's steps 4 to 7.

Memory is bounded, because a text has several phrase pairs for each word. A task extracts the phrase pairs of a batch
of sentences into a file, sorted by partition; a second task counts all pairs of a partition. A partition has a range of
source phrases, so its lines follow those of the previous one in the tables.

Lexical translation probabilities are relative frequencies of aligned words. Each alignment point counts as one joint
event of a source and a target word; an unaligned word has one event with the empty word `NULL`
(scripts/training/LexicalTranslationModel.pm).

Shape suffixes: I instances; K distinct phrase pairs; E events; L distinct pairs of words; N words of one text.
"""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from moses_integration.building.aligned_corpus import AlignedCorpus, Text, read_aligned_corpus
from moses_integration.building.extraction import LONGEST_PHRASE, extract_phrase_pairs
from moses_integration.building.phrase_counts import (
    Floats,
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
from phrasescore.phrases import Ids, Offsets
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


@dataclass(frozen=True)
class TableCounts:
    """Sizes of the input, of the lexical tables, and of the other tables."""

    sentence_pairs: int
    alignment_points: int
    word_pairs: int
    extracted: int
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
        lexical_model = _estimate_lexical_model(corpus)
        aligned, words = corpus.aligned, (corpus.source.words, corpus.target.words)
        tasks = _Tasks.prepare(Path(scratch), max_phrase_length, corpus, lexical_model)
        # The tasks read the words from files.
        del corpus
        batches = list(aligned.batches())
        processes = min(processes or available_cores(), max(len(batches), tasks.partitions))
        with start_workers("counting phrase pairs", processes, scheduler) as workers:
            offsets = _extract(tasks, batches, workers, progress)
            extracted = sum(int(offset[-1]) for offset in offsets)
            if not extracted:
                raise UserError(
                    f"{alignment}: yields no phrase pair; give more sentence pairs whose lines translate each other, "
                    "and an alignment of these texts, source first"
                )
            pairs = _write_tables(tasks, offsets, folder, workers, progress)
            _write_lexical_tables(lexical_model, words, folder)
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
    partitions: int

    @classmethod
    def prepare(cls, folder: Path, longest: int, corpus: AlignedCorpus, lexical_model: _LexicalModel) -> _Tasks:
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


@dataclass(frozen=True)
class _LexicalModel:
    """Word translation probabilities in both directions, with the 7 decimals that Moses prints and reads back.

    The lexical weight of a phrase is the product of its words' weights, because all alignment points of its words are
    in the phrase pair (Koehn et al. 2003, section 4.4; phrase-extract/score-main.cpp, computeLexicalTranslation).
    """

    source_L: Ids
    target_L: Ids
    target_given_source_L: Floats
    source_given_target_L: Floats
    target_weight_N: Floats
    """Mean probability of each target word given the source words aligned to it, or given `NULL`."""
    source_weight_N: Floats
    """The same for each source word."""


def _estimate_lexical_model(corpus: AlignedCorpus) -> _LexicalModel:
    """Count aligned words and compute both directions."""
    source, target = corpus.source, corpus.target
    unaligned_source, unaligned_target = _unaligned(source, corpus.source_P), _unaligned(target, corpus.target_P)
    # The events: alignment points, unaligned source words, unaligned target words.
    source_E = np.concatenate(
        [source.ids_N[corpus.source_P], source.ids_N[unaligned_source], np.full(len(unaligned_target), source.null)]
    )
    target_E = np.concatenate(
        [target.ids_N[corpus.target_P], np.full(len(unaligned_source), target.null), target.ids_N[unaligned_target]]
    )
    keys_L, pair_E, count_L = np.unique(
        source_E.astype(np.int64) * len(target.words) + target_E, return_inverse=True, return_counts=True
    )
    source_L, target_L = (ids.astype(np.int32) for ids in np.divmod(keys_L, len(target.words)))
    target_given_source_L = _seven_decimals(count_L / np.bincount(source_L, count_L)[source_L])
    source_given_target_L = _seven_decimals(count_L / np.bincount(target_L, count_L)[target_L])
    points, end = len(corpus.source_P), len(corpus.source_P) + len(unaligned_source)
    return _LexicalModel(
        source_L,
        target_L,
        target_given_source_L,
        source_given_target_L,
        _mean_by_word(
            np.append(corpus.target_P, unaligned_target),
            target_given_source_L[np.append(pair_E[:points], pair_E[end:])],
        ),
        _mean_by_word(np.append(corpus.source_P, unaligned_source), source_given_target_L[pair_E[:end]]),
    )


def _write_lexical_tables(model: _LexicalModel, words: tuple[list[bytes], list[bytes]], folder: Path) -> None:
    """Write `lex.f2e` (target given source) and `lex.e2f` (source given target), sorted by bytes.

    A line is `predicted given probability`. `words` are the vocabularies of source and target.
    """
    source, target = (model.source_L, words[0]), (model.target_L, words[1])
    _write_table(folder / "lex.f2e", target, source, model.target_given_source_L)
    _write_table(folder / "lex.e2f", source, target, model.source_given_target_L)


def _unaligned(text: Text, aligned_P: Ids) -> NDArray[np.int64]:
    return np.flatnonzero(np.bincount(aligned_P, minlength=len(text.ids_N)) == 0)


def _seven_decimals(probability_L: Floats) -> Floats:
    return np.array([b"%.7f" % probability for probability in probability_L.tolist()], np.float64)


def _mean_by_word(word_E: NDArray[np.integer], probability_E: Floats) -> Floats:
    """Return the mean probability of each word's events, of which it has at least one."""
    return np.bincount(word_E, probability_E) / np.bincount(word_E)


def _write_table(
    path: Path, predicted: tuple[Ids, list[bytes]], given: tuple[Ids, list[bytes]], probability_L: Floats
) -> None:
    (predicted_L, predicted_words), (given_L, given_words) = predicted, given
    order = np.lexsort((given_L, predicted_L))
    rows = zip(*(column[order].tolist() for column in (predicted_L, given_L, probability_L)), strict=True)
    with open_output(path) as stream:
        stream.writelines(b"%b %b %.7f\n" % (predicted_words[a], given_words[b], p) for a, b, p in rows)
