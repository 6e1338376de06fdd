"""Append scores to each line of a phrase table, in chunks that worker processes share."""

from __future__ import annotations

import contextlib
import hashlib
import time
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import chain, islice
from pathlib import Path
from typing import Any, Literal

import torch

from phrasescore.errors import InputError, UsageError, UserError, spelled
from phrasescore.files import (
    STANDARD_STREAM,
    compress,
    compression_for,
    display_name,
    is_device_or_pipe,
    open_output,
    require_writable,
    sha256_of_input,
)
from phrasescore.files.resumable import resumable_output
from phrasescore.plugins import loaded_plugins, plugins_blamed
from phrasescore.scoring.background import read_ahead
from phrasescore.scoring.columns import NEUTRAL, Column
from phrasescore.scoring.occurrences import Occurrences
from phrasescore.scoring.parts import describe_part, forget_part
from phrasescore.scoring.scorer import PhraseScorer, Scores, ScoringTask
from phrasescore.table.entry import LineFault, cut_line
from phrasescore.table.factors import SURFACE
from phrasescore.table.reader import CHUNK_LINES, Block, Chunk, LineChecker, count_blocks, read_blocks
from phrasescore.table.selection import Shard
from phrasescore.text import Log, no_log
from phrasescore.workers import Shared, map_ordered, start_workers

_KILLED = "annotating: a process was killed, most likely for want of memory; use fewer processes"
_NO_LINES: dict[str, Any] = {}
"""Facts of the empty chunk that makes a shard without lines a valid compressed file; other chunks have counts."""
ALONE = 2
"""Chunks that take less time than starting other processes."""


@dataclass
class Counts:
    """Line, word and score counts of an annotated table."""

    lines_read: int = 0
    lines_written: int = 0
    lines_filtered_out: int = 0
    faulty_lines: int = 0
    faulty_lines_kept: int = 0
    pairs_clipped: int = 0
    """Scores below the floor."""
    source_words: int = 0
    """As for the target, 0 for models without a vocabulary."""
    source_words_unknown: int = 0
    target_words: int = 0
    target_words_unknown: int = 0
    score_sum: float = 0.0
    """Sum of the values of the first new column."""
    columns_before: int | None = None
    columns_after: int | None = None
    lines_of_run_before: int = 0
    """Lines from an interrupted run that this run resumed, among the lines read."""
    seconds: float = 0.0
    first_fault: str | None = None

    def add(self, later: Counts) -> None:
        """Add the counts of later lines."""
        for name in _SUMS:
            setattr(self, name, getattr(self, name) + getattr(later, name))
        for name in ("columns_before", "columns_after", "first_fault"):
            if getattr(self, name) is None:
                setattr(self, name, getattr(later, name))


_SUMS = (
    "lines_read",
    "lines_written",
    "lines_filtered_out",
    "faulty_lines",
    "faulty_lines_kept",
    "pairs_clipped",
    "source_words",
    "source_words_unknown",
    "target_words",
    "target_words_unknown",
    "score_sum",
)


@dataclass(frozen=True)
class AnnotatedBlock:
    """An annotated chunk of a table."""

    data: bytes
    """The lines with their new columns, compressed if the output is."""
    counts: Counts
    share_read: float | None
    """The fraction of the table up to the end of the chunk, None for a pipe."""


@dataclass(frozen=True)
class Annotation:
    """The task of annotating a chunk."""

    table: str
    """Its name in messages."""
    scoring: ScoringTask
    """Computes the columns to append."""
    replaced: bytes | None = None
    """The last score of every line, which the new columns replace."""
    keep_faulty: bool = False
    only_sources: Shared[frozenset[bytes]] | None = None
    """Keep only lines with these source phrases."""
    compression: str | None = None

    def __call__(self, block: Block) -> AnnotatedBlock:
        """Return the annotated chunk.

        Raises:
            UserError: a line is invalid, or a network is damaged or not accessible to the worker.
        """
        with plugins_blamed():
            factors = self.scoring.scorer.get().factors or SURFACE
        checker = LineChecker(
            self.table, keep_faulty=self.keep_faulty, shape=block.shape, factors=factors, last_score=self.replaced
        )
        chunk = checker.check(block)
        counts = Counts(lines_read=chunk.lines_read, faulty_lines=len(chunk.faulty))
        for faulty in chunk.faulty.values():
            error = checker.error(faulty.number, faulty.fault)
            if faulty.fault.is_about_the_table:
                raise error
            counts.first_fault = counts.first_fault or str(error)
        if self.only_sources is not None:
            chunk = chunk.keep_sources(self.only_sources.get())
        if self.replaced is not None:
            chunk = replace(chunk, entries=[entry.without_last_score() for entry in chunk.entries])
        scores = self.scoring(Occurrences(*factors.network_phrases(chunk.entries)))
        columns = self.scoring.columns
        texts = [column.texts(values_N) for column, values_N in zip(columns, scores.values_NK.T, strict=True)]
        lines = self._annotated_lines(
            chunk, [b" ".join(line) for line in zip(*(text for text, _ in texts), strict=True)]
        )
        counts.pairs_clipped = sum(clipped for _, clipped in texts)
        _count(chunk, scores, counts)
        counts.columns_before = block.shape.columns
        if block.shape.columns is not None:
            counts.columns_after = block.shape.columns + len(columns) - (self.replaced is not None)
        return AnnotatedBlock(compress(lines, self.compression) if any(lines) else b"", counts, block.share_read)

    def _annotated_lines(self, chunk: Chunk, texts: Iterable[bytes]) -> list[bytes]:
        """Return the lines of a chunk with the new columns.

        An invalid line gets neutral columns if it has a score field. It stays unchanged if it has none or is too long.
        """
        lines = [entry.with_columns(text) for entry, text in zip(chunk.entries, texts, strict=True)]
        neutral = b" ".join([NEUTRAL] * len(self.scoring.columns))
        for index in sorted(chunk.faulty):
            line = chunk.faulty[index].line
            with contextlib.suppress(LineFault):
                line = cut_line(line).with_columns(neutral)
            lines.insert(index, line)
        return [*lines, chunk.continued]


def _count(chunk: Chunk, scores: Scores, counts: Counts) -> None:
    counts.lines_written = len(chunk.entries) + len(chunk.faulty)
    counts.lines_filtered_out = counts.lines_read - counts.lines_written
    counts.faulty_lines_kept = len(chunk.faulty)
    words = scores.words
    counts.source_words, counts.source_words_unknown = words.source, words.source_unknown
    counts.target_words, counts.target_words_unknown = words.target, words.target_unknown
    counts.score_sum = float(scores.first_N.sum())


def annotate(
    table: str | Path,
    scorer: PhraseScorer,
    output: str | Path | None,
    *,
    columns: Sequence[Column] | None = None,
    replace_last: str | None = None,
    only_sources: Shared[frozenset[bytes]] | None = None,
    limit: int | None = None,
    shard: Shard | None = None,
    on_error: Literal["stop", "keep"] = "stop",
    processes: int | None = None,
    scheduler: str | None = None,
    restart: bool = False,
    block_lines: int = CHUNK_LINES,
    progress: Callable[[Counts, float | None], None] = lambda counts, share: None,
    log: Log = no_log,
) -> Counts:
    """Append columns to every line of a phrase table, in order; all other bytes stay unchanged.

    The output is identical for any number of workers. If an earlier run was interrupted, the same call resumes it;
    table and output must both be regular files.

    Args:
        table: the input file, `-` for standard input.
        scorer: computes the columns.
        output: the output file, compressed according to its suffix, `-` for standard output; None scores without
            writing.
        columns: the columns to append; None for the first column of the scorer.
        replace_last: the last score of every line, which the new columns replace.
        only_sources: keep only lines with these source phrases, whose words are separated by single spaces.
        limit: stop after so many lines.
        shard: annotate only this shard of the table; a file beside the output describes it (see `Part`).
        on_error: stop at an invalid line, or keep it, with 1 in each new column.
        processes: number of processes; None for one per core of this machine, or one if it has a GPU.
        scheduler: address of a Dask scheduler, whose workers replace local processes.
        restart: discard the work of an interrupted run.
        block_lines: approximate number of lines of a chunk.
        progress: called after each chunk with the counts so far and the fraction of the table that has been read.
        log: called with a line when an interrupted run is resumed.

    Raises:
        UserError: an interrupted run had other inputs or options, the table is empty, malformed or unreadable, the
            model is damaged or lacks a column, or the output cannot be written or is the table. Then no output is
            written, and an old file stays unchanged.
    """
    started = time.monotonic()
    if output is not None:
        require_writable(output, inputs=[table])
    columns = scorer.columns[:1] if columns is None else columns
    _require_columns(scorer, columns)
    task = Annotation(
        str(table),
        ScoringTask(scorer.shared(), tuple(columns)),
        None if replace_last is None else replace_last.encode("utf-8", "surrogateescape"),
        on_error == "keep",
        only_sources,
        None if output is None else compression_for(output),
    )
    counts = Counts()
    reading = _Reading(table, limit, shard, block_lines)
    with _open_chunks(output, table, task, reading, restart=restart, log=log) as (append, done):
        for facts in done:
            counts.add(Counts(**facts))
        counts.lines_of_run_before = counts.lines_read
        with (
            contextlib.closing(read_ahead(reading.blocks(len(done)))) as blocks,
            contextlib.closing(_results(task, blocks, scorer.device.processes(processes), scheduler)) as results,
        ):
            for result in results:
                append(result.data, asdict(result.counts))
                counts.add(result.counts)
                counts.seconds = time.monotonic() - started
                progress(counts, result.share_read)
        reading.raise_error()
        if shard is None:
            _require_lines(table, counts)
        elif not counts.lines_written and _NO_LINES not in done:
            append(compress([], task.compression), _NO_LINES)
    return counts


Append = Callable[[bytes, dict[str, Any]], object]


@contextlib.contextmanager
def _open_chunks(
    output: str | Path | None, table: str | Path, task: Annotation, reading: _Reading, *, restart: bool, log: Log
) -> Iterator[tuple[Append, list[dict[str, Any]]]]:
    """Open the output; yield a function that appends a chunk and its facts, and the facts of existing chunks.

    Chunks exist if an earlier run was interrupted.
    """
    if output is None:
        yield lambda chunk, facts: None, []
    elif STANDARD_STREAM in (str(table), str(output)) or is_device_or_pipe(table) or is_device_or_pipe(output):
        with open_output(output, is_compressed=True) as stream:
            yield lambda chunk, facts: stream.write(chunk), []
    else:
        fingerprint, shard = _fingerprint(table, task, reading), reading.shard
        own = {**fingerprint, "shard": shard and f"{shard.number}/{shard.of}"}
        with resumable_output(output, own, restart=restart) as resumable:
            if shard is not None:
                forget_part(output)
            if resumable.note:
                log(resumable.note)
            yield resumable.append, list(resumable.chunks)
        if shard is not None:
            lines = sum(facts["lines_written"] for facts in resumable.chunks if facts != _NO_LINES)
            describe_part(output, shard, fingerprint, lines)


def _fingerprint(table: str | Path, task: Annotation, reading: _Reading) -> dict[str, Any]:
    """Return everything that determines the output except the shard, by names that users understand."""
    scorer, sources = task.scoring.scorer.get(), task.only_sources
    return {
        "table": sha256_of_input(table),
        "model": scorer.fingerprint,
        "plugin": list(loaded_plugins().values()),
        "device": scorer.device.torch_device.type,
        "precision": scorer.device.precision,
        "columns": [column.name for column in task.scoring.columns],
        "replace-last": task.replaced and task.replaced.decode("utf-8", "surrogateescape"),
        "only-sources-in": sources and hashlib.sha256(b"\n".join(sorted(sources.get()))).hexdigest(),
        "limit": reading.limit,
        "on-error": "keep" if task.keep_faulty else "stop",
        "lines of a chunk": reading.block_lines,
        "compression": task.compression,
        "torch": torch.__version__,
    }


class _Reading:
    """Reads the selected chunks of a table.

    An error ends the iteration, and is raised after earlier chunks are complete.
    """

    def __init__(self, table: str | Path, limit: int | None, shard: Shard | None, block_lines: int) -> None:
        self._table = table
        self.limit, self.shard, self.block_lines = limit, shard, block_lines
        self._error: BaseException | None = None

    def blocks(self, first: int) -> Iterator[Block]:
        """Yield the chunks after the first `first`; a fault in a chunk precedes an error of the file after it."""
        try:
            blocks = read_blocks(self._table, self.limit, self.block_lines)
            if self.shard is not None:
                blocks = self.shard.take(blocks, count_blocks(self._table, self.limit, self.block_lines))
            yield from islice(blocks, first, None)
        except Exception as error:
            self._error = error

    def raise_error(self) -> None:
        """Raise the error that ended the iteration, if there was one."""
        if self._error is not None:
            raise self._error


def _results(
    task: Annotation, blocks: Iterable[Block | None], processes: int, scheduler: str | None
) -> Generator[AnnotatedBlock, None, None]:
    """Yield the result of each chunk, in order; small tables, and slow input at the start, are processed serially."""
    waiting: deque[Block] = deque()
    blocks = iter(blocks)
    if scheduler is None:
        for block in blocks:
            if block is not None:
                waiting.append(block)
            elif waiting:
                yield task(waiting.popleft())
            if len(waiting) > ALONE:
                break
        else:
            yield from map(task, waiting)
            return
    with start_workers(_KILLED, processes, scheduler) as workers:
        yield from map_ordered(task, chain(waiting, blocks), workers)


def _require_columns(scorer: PhraseScorer, columns: Sequence[Column]) -> None:
    """Check that a model has the columns, and that each is given once.

    Raises:
        UserError: a column does not exist, is repeated, or none is given.
    """
    names = [column.name for column in columns]
    if not names or len({*names}) < len(names):
        raise UsageError(
            f"{spelled('columns')}: {'are none' if not names else 'are named twice'}; give each column once"
        )
    for name in names:
        scorer.column(name)


def _require_lines(table: str | Path, counts: Counts) -> None:
    """Check that a table has a line with a score, so that the output of a wrong input does not replace a good file.

    Raises:
        UserError: there is no such line.
    """
    if not counts.lines_read:
        raise UserError(f"{display_name(table)}: has no line; check that it is the table meant")
    if not counts.lines_written:
        raise UserError(
            f"{display_name(table)}: has no line with a source that occurs in the texts of "
            f"{spelled('only_sources_in')}; check that they are tokenised as the table is"
        )
    if counts.lines_written == counts.faulty_lines_kept:
        raise InputError(f"{counts.first_fault}; all {counts.lines_read:,} lines are faulty, so none gets a score")
