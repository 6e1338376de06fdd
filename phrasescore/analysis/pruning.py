"""A phrase table without its worst pairs.

Each source keeps its best pair, so that all that could be translated still can be. Among the other pairs those with
the lowest scores go, until the share that is asked for is gone, or all that are below a threshold. Two passes: the
scores of all lines are held in memory, the lines are not.

Legend: P lines.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from phrasescore.errors import UserError
from phrasescore.files import STANDARD_STREAM, display_name, open_output
from phrasescore.scoring.engine import Scorer
from phrasescore.table.entry import Entry
from phrasescore.table.reader import TableReader
from phrasescore.table.runs import SourceRuns
from phrasescore.words import split_words

Judge = Callable[[list[Entry]], NDArray[np.float64]]
"""Gives each of some neighbouring lines a score; the lower, the sooner it goes."""


@dataclass(frozen=True)
class Pruned:
    """What happened to a table."""

    lines_read: int
    lines_written: int
    sources: int
    best_dropped: float | None
    """The highest score of the lines that went; None if none did."""
    extractions_kept: float
    """The share of what the lines' pairs were extracted, by the table's counts: how much of the corpus' use stays."""


@dataclass(frozen=True)
class JudgedTable:
    """What of a table's lines is held in memory."""

    score_P: NDArray[np.float32]
    symbols_P: NDArray[np.int32]
    """Words of the target, and the end symbol."""
    count_P: NDArray[np.float32]
    """How often the pair was extracted; 1 where the table does not say."""
    offsets: NDArray[np.int64]
    """The lines of source s are offsets[s]:offsets[s + 1]."""


def by_network(scorer: Scorer) -> Judge:
    """Judge by ln p(target | source) of a network."""
    return lambda entries: (
        scorer.score_encoded(scorer.encode([e.source for e in entries], [e.target for e in entries])).log_prob
    )


def by_column(column: int, path: str | Path) -> Judge:
    """Judge by the logarithm of a score of the table.

    Args:
        column: its number, from 1; 3 is Moses' probability of the target given the source, and the last one what
            `phrasescore annotate` appended.
        path: of the table, for messages.
    """

    def judge(entries: list[Entry]) -> NDArray[np.float64]:
        try:
            values = [float(entry.scores.split(b" ")[column - 1]) for entry in entries]
        except IndexError:
            raise UserError(f"{display_name(path)}: has no score column {column}; give a lower number") from None
        with np.errstate(divide="ignore"):
            judged: NDArray[np.float64] = np.log(np.array(values))
        return judged

    return judge


def at_random(seed: int) -> Judge:
    """Judge by chance."""
    random = np.random.default_rng(seed)
    return lambda entries: random.random(len(entries))


def judge_table(table: Path, judge: Judge) -> JudgedTable:
    """Return the scores of a table's lines.

    Args:
        table: the phrase table, grouped by source; a file, for pruning reads it again.
        judge: gives the scores.

    Raises:
        UserError: the table is faulty, empty, not grouped by source, or cannot be read twice.
    """
    if str(table) == STANDARD_STREAM:
        raise UserError("standard input: cannot be read twice; give a file")
    scores, symbols = [np.zeros(0, np.float32)], [np.zeros(0, np.int32)]
    counts, begins, runs = [np.zeros(0, np.float32)], [np.zeros(0, np.bool_)], SourceRuns()
    for chunk in TableReader(table):
        entries = chunk.entries
        scores.append(judge(entries).astype(np.float32))
        symbols.append(np.array([len(split_words(e.target)) + 1 for e in entries], np.int32))
        counts.append(np.array([entry.occurrences("pair", 1.0) for entry in entries], np.float32))
        begins.append(np.array([runs.add(entry.source) for entry in entries], np.bool_))
    if not len(runs):
        raise UserError(f"{table}: has no line; check that it is the table meant")
    if runs.distinct() < len(runs):
        raise UserError(f"{table}: has lines of one source in different places; sort it first")
    begins_P = np.concatenate(begins)
    offsets = np.append(np.flatnonzero(begins_P), len(begins_P))
    return JudgedTable(np.concatenate(scores), np.concatenate(symbols), np.concatenate(counts), offsets)


def prune(
    table: Path,
    output: str | Path,
    judged: JudgedTable,
    *,
    share: float | None = None,
    threshold: float | None = None,
    per_word: bool = False,
    relative: bool = False,
) -> Pruned:
    """Write a table without its worst lines; the others stay as they are, in order.

    Args:
        table: the phrase table.
        output: where to write, `-` for standard output.
        judged: the scores of this very table.
        share: of the lines to drop at most, from 0 to 1; fewer go if there are not so many besides each source's best,
            and without it all of these.
        threshold: only lines with a lower score go; without it any.
        per_word: divide each score, a ln p, by the target words and the end symbol; the plain one favours short
            targets.
        relative: compare scores after taking away the best one of their source. A source that can be translated in many
            ways has low scores for all of them, and would lose more than its share.

    Raises:
        UserError: the output cannot be written.
    """
    score_P, offsets, count_P = judged.score_P, judged.offsets, judged.count_P
    if per_word:
        score_P = (score_P / judged.symbols_P).astype(np.float32)
    if relative and len(score_P):
        # A probability of zero stays the worst, also where it is the best of its source.
        best_P = np.repeat(np.maximum.reduceat(score_P, offsets[:-1]), np.diff(offsets))
        score_P = np.subtract(score_P, best_P, out=np.full_like(score_P, -np.inf), where=np.isfinite(score_P))
    kept_P = _kept(score_P, offsets, share, threshold)
    with open_output(output) as stream:
        stream.writelines(_kept_lines(table, kept_P))
    best_dropped = None if kept_P.all() else float(score_P[~kept_P].max())
    extractions_kept = float(count_P[kept_P].sum(dtype=np.float64) / max(count_P.sum(dtype=np.float64), 1e-9))
    return Pruned(len(score_P), int(kept_P.sum()), len(offsets) - 1, best_dropped, extractions_kept)


def _kept(
    score_P: NDArray[np.float32], offsets: NDArray[np.int64], share: float | None, threshold: float | None
) -> NDArray[np.bool_]:
    """Return which lines stay."""
    source_P = np.repeat(np.arange(len(offsets) - 1), np.diff(offsets))
    by_source = np.lexsort((-score_P, source_P))
    may_go_P = np.ones(len(score_P), np.bool_) if threshold is None else score_P < threshold
    may_go_P[by_source[offsets[:-1]]] = False
    others = np.flatnonzero(may_go_P)
    most = None if share is None else round(share * len(score_P))
    kept_P = np.ones(len(score_P), np.bool_)
    kept_P[others[np.argsort(score_P[others], kind="stable")][:most]] = False
    return kept_P


def _kept_lines(table: Path, kept_P: NDArray[np.bool_]) -> Iterator[bytes]:
    line = 0
    for chunk in TableReader(table):
        for entry in chunk.entries:
            if kept_P[line]:
                yield entry.line
            line += 1
