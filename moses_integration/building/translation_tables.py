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
from moses_integration.building.partitions import Batch, Extraction, PairCounting, TargetCounting, Workspace, parts_of
from moses_integration.building.phrase_scores import PHRASE_TABLE
from moses_integration.building.reordering import REORDERING_TABLE
from phrasescore.errors import UserError
from phrasescore.files import open_output
from phrasescore.text import Show, unseen
from phrasescore.workers import available_cores, share_work

_EXTRACTING = 0.3
"""The share of the time that it takes to extract phrase pairs, about; the rest is counting them."""
_KILLED = "counting phrase pairs: a process was killed, most likely for want of memory; use fewer processes"


@dataclass(frozen=True)
class TableCounts:
    """How much went into the tables and how much came out."""

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
    show: Show = unseen,
) -> TableCounts:
    """Write `lex.f2e`, `lex.e2f`, the phrase table and the reordering table into `folder`, as Moses would.

    The texts have words separated by blanks, and `alignment` has the points of each sentence pair in the Pharaoh
    format, source first. The tables are those of train-model.perl with `-reordering msd-bidirectional-fe` and its
    other defaults, byte for byte; the lexical tables, which Moses leaves in no order, are sorted. What does not fit
    into memory lies in a hidden folder beside them meanwhile. `processes` and `scheduler` are those of `share_work`;
    the tables do not depend on them. `show` is shown how far it is.

    Raises:
        UserError: a file cannot be read or written, the input is empty, inconsistent or not what Moses would read, it
            yields no phrase pair, or `max_phrase_length` is not from 1 to 7.
    """
    if not 1 <= max_phrase_length <= LONGEST_PHRASE:
        raise UserError(f"the maximum phrase length is {max_phrase_length}; give a number from 1 to {LONGEST_PHRASE}")
    corpus = read_aligned_corpus(source, target, alignment)
    lexical_model = estimate_lexical_model(corpus)
    with TemporaryDirectory(prefix=".partitions.", dir=folder) as scratch:
        space = Workspace.fill(Path(scratch), max_phrase_length, corpus, lexical_model.weights)
        # From here on it lies on the disk.
        corpus = AlignedCorpus.load(space.folder)
        cuts = [Batch(number, *batch) for number, batch in enumerate(corpus.aligned.batches())]
        processes = min(processes or available_cores(), max(len(cuts), space.partitions))
        with share_work(_KILLED, processes, scheduler) as workers:
            extracted = []
            for batch in workers.in_order(Extraction(space), cuts):
                extracted.append(batch)
                show(_EXTRACTING * len(extracted) / len(cuts), "extracting phrase pairs")
            instances = sum(int(batch.instances[-1]) for batch in extracted)
            if not instances:
                raise UserError(
                    f"{alignment}: yields no phrase pair; give more sentence pairs whose lines translate each other, "
                    "and an alignment of these very texts, source first"
                )
            write_lexical_tables(lexical_model, corpus, folder)
            deque(workers.in_order(TargetCounting(space), parts_of(batch.targets for batch in extracted)), maxlen=0)
            space.join_target_counts()
            parts = parts_of(batch.instances for batch in extracted)
            with (
                open_output(folder / PHRASE_TABLE, is_compressed=True) as table,
                open_output(folder / REORDERING_TABLE, is_compressed=True) as reordering,
            ):
                pairs = 0
                for part, written in zip(parts, workers.in_order(PairCounting(space), parts), strict=True):
                    _move(space.table(part.number, PHRASE_TABLE), table)
                    _move(space.table(part.number, REORDERING_TABLE), reordering)
                    pairs += written
                    show(_EXTRACTING + (1 - _EXTRACTING) * (part.number + 1) / len(parts), "counting phrase pairs")
        return TableCounts(corpus.sentences, len(corpus.source_P), len(lexical_model.source_L), instances, pairs)


def _move(member: Path, stream: BinaryIO) -> None:
    """Append a compressed file to one of several members, and remove it."""
    with member.open("rb") as file:
        shutil.copyfileobj(file, stream)
    member.unlink()
