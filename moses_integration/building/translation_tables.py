"""From two tokenised texts and their word alignment to Moses' translation tables: train-model.perl's steps 4 to 7."""

from __future__ import annotations

import shutil
from collections import deque
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import BinaryIO

from moses_integration.building.aligned_corpus import AlignedCorpus, read_aligned_corpus
from moses_integration.building.lexical import estimate_lexical_model, write_lexical_tables
from moses_integration.building.pair_alignment import LONGEST_PHRASE
from moses_integration.building.partitions import (
    Batch,
    Extraction,
    PairCounting,
    TargetCounting,
    Workspace,
    partitions_of,
)
from moses_integration.building.table_lines import PHRASE_TABLE, REORDERING_TABLE
from phrasescore.errors import UserError
from phrasescore.files import open_output
from phrasescore.text import ProgressCallback, no_progress
from phrasescore.workers import available_cores, map_ordered, start_workers

_EXTRACTING = 0.3
"""Approximate share of the time for extracting phrase pairs; the rest is for counting them."""
_KILLED = "counting phrase pairs: a process was killed, probably because memory ran out; use fewer processes"


@dataclass(frozen=True)
class TableCounts:
    """Sizes of the input and of the tables."""

    sentence_pairs: int
    alignment_points: int
    word_pairs: int
    """Lines of each lexical table."""
    extracted: int
    """Occurrences of phrase pairs."""
    phrase_pairs: int
    """Lines of the phrase table and of the reordering table."""


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
    `processes` and `scheduler`. Intermediate files are in a hidden folder beside them.

    Args:
        source: words separated by spaces.
        target: its translation, line by line.
        alignment: Pharaoh format, source first.
        folder: the output folder.
        max_phrase_length: from 1 to 7.
        processes: see `start_workers`.
        scheduler: see `start_workers`.
        progress: receives the progress.

    Raises:
        UserError: the input is empty, inconsistent or misread by Moses, or yields no phrase pair.
    """
    if not 1 <= max_phrase_length <= LONGEST_PHRASE:
        raise UserError(f"the maximum phrase length is {max_phrase_length}; give a number from 1 to {LONGEST_PHRASE}")
    corpus = read_aligned_corpus(source, target, alignment)
    lexical_model = estimate_lexical_model(corpus)
    with TemporaryDirectory(prefix=".partitions.", dir=folder) as scratch:
        space = Workspace.fill(Path(scratch), max_phrase_length, corpus, lexical_model.weights)
        # Free the memory: the same corpus, memory-mapped.
        corpus = AlignedCorpus.load(space.folder)
        cuts = [Batch(number, *batch) for number, batch in enumerate(corpus.aligned.batches())]
        processes = min(processes or available_cores(), max(len(cuts), space.partitions))
        with start_workers(_KILLED, processes, scheduler) as workers:
            extracted = []
            for batch in map_ordered(Extraction(space), cuts, workers):
                extracted.append(batch)
                progress(_EXTRACTING * len(extracted) / len(cuts), "extracting phrase pairs")
            instances = sum(int(batch.instances[-1]) for batch in extracted)
            if not instances:
                raise UserError(
                    f"{alignment}: yields no phrase pair; give more sentence pairs whose lines translate each other, "
                    "and an alignment of these texts, source first"
                )
            write_lexical_tables(lexical_model, corpus, folder)
            target_partitions = partitions_of(batch.targets for batch in extracted)
            deque(map_ordered(TargetCounting(space), target_partitions, workers), maxlen=0)
            space.join_target_counts()
            partitions = partitions_of(batch.instances for batch in extracted)
            with (
                open_output(folder / PHRASE_TABLE, is_compressed=True) as table,
                open_output(folder / REORDERING_TABLE, is_compressed=True) as reordering,
            ):
                pairs = 0
                counts = map_ordered(PairCounting(space), partitions, workers)
                for partition, written in zip(partitions, counts, strict=True):
                    _move(space.table(partition.number, PHRASE_TABLE), table)
                    _move(space.table(partition.number, REORDERING_TABLE), reordering)
                    pairs += written
                    share = (partition.number + 1) / len(partitions)
                    progress(_EXTRACTING + (1 - _EXTRACTING) * share, "counting phrase pairs")
        return TableCounts(corpus.sentences, len(corpus.source_P), len(lexical_model.source_L), instances, pairs)


def _move(member: Path, stream: BinaryIO) -> None:
    """Append a compressed file as a gzip member, and remove it."""
    with member.open("rb") as file:
        shutil.copyfileobj(file, stream)
    member.unlink()
