"""Append scores to each line of a phrase table, in chunks that worker processes share."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import asdict, dataclass, field, fields, replace
from itertools import islice
from pathlib import Path
from typing import Any

from phrasescore.errors import InputError, UserError, arg_name
from phrasescore.files import (
    compress,
    compression_for,
    display_name,
    is_stream,
    open_output,
    require_writable,
    sha256_of_input,
)
from phrasescore.files.resumable import resumable_output
from phrasescore.model_files import versions
from phrasescore.scoring.annotate_config import AnnotateConfig, phrases_in_texts
from phrasescore.scoring.columns import FLOOR, NEUTRAL
from phrasescore.scoring.occurrences import Occurrences
from phrasescore.scoring.scorer import PhraseScorer, ScoringTask
from phrasescore.scoring.shards import describe_shard, description_of
from phrasescore.table.entry import SURFACE, Entry, Factors, LineFault, cut_line
from phrasescore.table.reader import CHUNK_LINES, CheckedChunk, Chunk, LineChecker, count_chunks, read_chunks
from phrasescore.text import Log, counted, no_log
from phrasescore.vocabulary import WordCounts
from phrasescore.words import quote
from phrasescore.workers import run_ordered

_DEFAULTS = AnnotateConfig()
_SCHEMA = 6

Append = Callable[[bytes, dict[str, Any]], object]
AnnotateCallback = Callable[["Counts", float | None], None]


@dataclass
class Counts:
    """Counts of lines, scores and words of an annotated table."""

    lines_read: int = 0
    lines_written: int = 0
    faulty_lines: int = 0
    faulty_lines_kept: int = 0
    pairs_clipped: int = 0
    """Scores below the floor."""
    words: WordCounts = field(default_factory=WordCounts)
    lines_of_run_before: int = 0
    """Lines from an interrupted run that this run resumed, among the lines read."""
    seconds: float = 0.0
    columns_before: int | None = None
    columns_after: int | None = None
    first_fault: str | None = None

    def add(self, later: Counts) -> None:
        for name in (one.name for one in fields(self)):
            mine, theirs = getattr(self, name), getattr(later, name)
            if name in ("columns_before", "columns_after", "first_fault"):
                setattr(self, name, theirs if mine is None else mine)
            else:
                setattr(self, name, mine + theirs)


_NO_LINES = asdict(Counts())


@dataclass(frozen=True)
class Annotation:
    """The task of annotating a chunk."""

    table: str
    scoring: ScoringTask
    replaced: bytes | None
    """The last score of every line, which the new columns replace."""
    keep_faulty: bool
    only_sources: frozenset[bytes] | None
    compression: str | None

    def __call__(self, chunk: Chunk) -> tuple[bytes, Counts, float | None]:
        """Return the lines with new columns, compressed; their counts; and `share_read` of the chunk."""
        counts, columns = Counts(), self.scoring.columns
        checked = self._checked(chunk, counts)
        scores = self.scoring(Occurrences(*self._factors.network_phrases(checked.entries)))
        texts = [column.texts(values_N) for column, values_N in zip(columns, scores.values_NK.T, strict=True)]
        joined = map(b" ".join, zip(*(text for text, _ in texts), strict=True))
        annotated = (entry.with_columns(text) for entry, text in zip(checked.entries, joined, strict=True))
        lines = [next(annotated) if isinstance(line, Entry) else self._neutral(line.line) for line in checked.lines]
        counts.lines_written = len(checked.lines)
        counts.pairs_clipped = sum(clipped for _, clipped in texts)
        counts.words = scores.words
        if chunk.shape.columns is not None:
            counts.columns_before = chunk.shape.columns
            counts.columns_after = chunk.shape.columns + len(columns) - (self.replaced is not None)
        lines.append(checked.continued)
        return compress(lines, self.compression) if any(lines) else b"", counts, chunk.share_read

    @property
    def _factors(self) -> Factors:
        return self.scoring.scorer.factors or SURFACE

    def _checked(self, chunk: Chunk, counts: Counts) -> CheckedChunk:
        """Return the lines to write, without the score to replace."""
        checker = LineChecker(
            self.table,
            keep_faulty=self.keep_faulty,
            shape=chunk.shape,
            factors=self._factors,
            check_entry=self._check_last_score,
        )
        checked = checker.check(chunk)
        counts.lines_read, counts.faulty_lines = len(checked.lines), len(checked.faulty)
        counts.first_fault = checker.first_fault(checked)
        if self.only_sources is not None:
            checked = checked.keep_sources(self.only_sources)
        if self.replaced is not None:
            lines = (line.without_last_score() if isinstance(line, Entry) else line for line in checked.lines)
            checked = replace(checked, lines=list(lines))
        counts.faulty_lines_kept = len(checked.faulty)
        return checked

    def _check_last_score(self, entry: Entry) -> None:
        score = entry.scores.rpartition(b" ")[2]
        if self.replaced not in (None, score):
            raise LineFault(
                "field 3 (scores)",
                f"ends in {quote(score)} where {quote(self.replaced or b'')} is to be replaced",
                f"give {arg_name('replace_last')} what ends every line: 2.718 if the table was made "
                "with Moses' --PhraseCount",
            )

    def _neutral(self, line: bytes) -> bytes:
        """Return an invalid line with neutral columns, unchanged if it has no scores or is too long."""
        with suppress(LineFault):
            entry = cut_line(line)
            if entry.scores:
                return entry.with_columns(b" ".join([NEUTRAL] * len(self.scoring.columns)))
        return line


def annotate(
    table: str | Path,
    scorer: PhraseScorer,
    output: str | Path | None,
    config: AnnotateConfig = _DEFAULTS,
    *,
    chunk_lines: int = CHUNK_LINES,
    progress: AnnotateCallback = lambda counts, share: None,
    log: Log = no_log,
) -> Counts:
    """Append columns to every line of a phrase table; see `phrasescore.annotate`."""
    started = time.monotonic()
    if output is not None:
        require_writable(output, inputs=[table])
    task, counts = make_task(table, scorer, output, config, log), Counts()
    with _open_chunks(output, table, task, config, chunk_lines, log) as (append, done):
        for facts in done:
            counts.add(Counts(**{**facts, "words": WordCounts(**facts["words"])}))
        counts.lines_of_run_before = counts.lines_read
        chunks = islice(_chunks(table, config, chunk_lines), len(done), None)
        processes = scorer.device.processes(config.processes)
        with closing(run_ordered(task, chunks, "annotating", processes, config.scheduler)) as results:
            for chunk, its_counts, share_read in results:
                append(chunk, asdict(its_counts))
                counts.add(its_counts)
                counts.seconds = time.monotonic() - started
                progress(counts, share_read)
        if config.shard is None:
            require_lines(table, counts)
        elif not counts.lines_written and _NO_LINES not in done:
            # An empty shard is a valid compressed file, too.
            append(compress([], task.compression), _NO_LINES)
    if task.only_sources is not None and config.limit is None and config.shard is None:
        _warn_if_few(counts, task.only_sources, log)
    return counts


def make_task(
    table: str | Path, scorer: PhraseScorer, output: str | Path | None, config: AnnotateConfig, log: Log = no_log
) -> Annotation:
    """Return the task that annotates a chunk of a table."""
    return Annotation(
        str(table),
        ScoringTask(scorer, config.columns_of(scorer)),
        None if config.replace_last is None else config.replace_last.encode("utf-8", "surrogateescape"),
        config.on_error == "keep",
        phrases_in_texts(config.only_sources_in, log=log) if config.only_sources_in else None,
        None if output is None else compression_for(output),
    )


def report_on(
    table: str | Path,
    digest: str | None,
    scorer: PhraseScorer,
    output: str | Path,
    config: AnnotateConfig,
    counts: Counts,
) -> dict[str, Any]:
    """Return the counts and the provenance of the scores; `digest` is the SHA-256 of the table."""
    options = {name: getattr(config, name) for name in ("replace_last", "limit", "shard", "on_error")}
    return {
        "schema": _SCHEMA,
        "input": str(table),
        "input_sha256": digest,
        "output": str(output),
        "scorer": {
            "folders": list(map(str, scorer.folders)),
            "sha256": scorer.fingerprint,
            "direction": scorer.direction,
        },
        "columns": [column.name for column in config.columns_of(scorer)],
        "floor": FLOOR,
        "options": {**options, "only_sources_in": list(map(str, config.only_sources_in))},
        "computing": {"device": str(scorer.device.torch_device), "precision": scorer.device.precision},
        "counts": asdict(counts),
        "versions": versions(),
    }


def _chunks(table: str | Path, config: AnnotateConfig, chunk_lines: int) -> Iterator[Chunk]:
    chunks, shard = read_chunks(table, config.limit, chunk_lines), config.parsed_shard()
    return chunks if shard is None else shard.take(chunks, count_chunks(table, config.limit, chunk_lines))


@contextmanager
def _open_chunks(
    output: str | Path | None, table: str | Path, task: Annotation, config: AnnotateConfig, chunk_lines: int, log: Log
) -> Iterator[tuple[Append, list[dict[str, Any]]]]:
    """Open the output; yield a function that appends a chunk and its facts, and the facts of earlier chunks."""
    if output is None:
        yield lambda chunk, facts: None, []
    elif is_stream(table) or is_stream(output):
        with open_output(output, is_compressed=True) as stream:
            yield lambda chunk, facts: stream.write(chunk), []
    else:
        fingerprint, shard = _fingerprint(table, task, config.limit, chunk_lines), config.parsed_shard()
        with resumable_output(output, {**fingerprint, "shard": config.shard}, restart=config.restart) as resumable:
            if shard is not None:
                description_of(output).unlink(missing_ok=True)
            if resumable.note:
                log(resumable.note)
            yield resumable.append, list(resumable.chunks)
        if shard is not None:
            describe_shard(output, shard, fingerprint, sum(facts["lines_written"] for facts in resumable.chunks))


def _fingerprint(table: str | Path, task: Annotation, limit: int | None, chunk_lines: int) -> dict[str, Any]:
    """Return everything that determines the output except the shard, by names that users understand."""
    sources = task.only_sources
    return {
        "table": sha256_of_input(table),
        **task.scoring.scorer.run_fingerprint(),
        "columns": [column.name for column in task.scoring.columns],
        "replace-last": task.replaced and task.replaced.decode("utf-8", "surrogateescape"),
        "only-sources-in": sources and hashlib.sha256(b"\n".join(sorted(sources))).hexdigest(),
        "limit": limit,
        "on-error": "keep" if task.keep_faulty else "stop",
        "lines of a chunk": chunk_lines,
        "compression": task.compression,
    }


def require_lines(table: str | Path, counts: Counts) -> None:
    """Check that a line has a score, so that the output of a wrong input does not replace a good file."""
    if not counts.lines_read:
        raise UserError(f"{display_name(table)}: has no line; check that it is the table meant")
    if not counts.lines_written:
        raise UserError(
            f"{display_name(table)}: has no line with a source that occurs in the texts of "
            f"{arg_name('only_sources_in')}; check that they are tokenised as the table is"
        )
    if counts.lines_written == counts.faulty_lines_kept:
        raise InputError(f"{counts.first_fault}; all {counts.lines_read:,} lines are faulty, so none gets a score")


def _warn_if_few(counts: Counts, sources: frozenset[bytes], log: Log) -> None:
    """Warn if few lines were kept: a table that matches the texts has several lines for each of their words."""
    words = sum(b" " not in phrase for phrase in sources)
    if counts.lines_written < words:
        log(
            f"only {counted(counts.lines_written, 'line')} kept for {words:,} different words in the texts of "
            f"{arg_name('only_sources_in')}; check that they are tokenised and cased as the table is"
        )
