"""A phrase table without its worst pairs.

Each source keeps its best pair, so that all that could be translated still can be. Among the other pairs those with
the lowest scores go, until the share that is asked for is gone or only the best are left. Two passes: the scores of
all lines are held in memory, the lines are not.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from phrasescore.errors import UserError
from phrasescore.files import STANDARD_STREAM, display_name, open_output
from phrasescore.phrases import offsets_of
from phrasescore.scoring.engine import Scorer
from phrasescore.table.entry import Entry
from phrasescore.table.reader import TableReader

Judge = Callable[[list[Entry]], NDArray[np.float64]]
"""Gives each of some neighbouring lines a score; the lower, the sooner it goes."""


@dataclass(frozen=True)
class Pruned:
    """What happened to a table."""

    lines_read: int
    lines_written: int
    sources: int
    threshold: float | None
    """The score of the best line that went; None if none did."""
    extractions_kept: float
    """The share of what the lines' pairs were extracted, by the table's counts: how much of the corpus' use stays."""


def by_network(scorer: Scorer, *, per_word: bool) -> Judge:
    """Judge by ln p of the network, whole or per predicted symbol: words and end symbol."""

    def judge(entries: list[Entry]) -> NDArray[np.float64]:
        scores = scorer.score(scorer.encode([e.source for e in entries], [e.target for e in entries]))
        return scores.log_prob / scores.symbols if per_word else scores.log_prob

    return judge


def by_column(column: int, path: str | Path, *, per_word: bool) -> Judge:
    """Judge by the logarithm of a score of the table.

    Args:
        column: its number, from 1; 3 is Moses' probability of the target given the source, and the last one what
            `phrasescore annotate` appended.
        path: of the table, for messages.
        per_word: divide by the number of target words plus one, the end symbol.
    """

    def judge(entries: list[Entry]) -> NDArray[np.float64]:
        try:
            values = [float([score for score in e.scores.split(b" ") if score][column - 1]) for e in entries]
        except IndexError:
            raise UserError(f"{display_name(path)}: has no score column {column}; give a lower number") from None
        with np.errstate(divide="ignore", invalid="ignore"):
            logs = np.log(np.array(values))
        words = np.array([sum(1 for word in e.target.split(b" ") if word) + 1 for e in entries]) if per_word else 1
        judged: NDArray[np.float64] = np.nan_to_num(logs, nan=-np.inf, neginf=-np.inf) / words
        return judged

    return judge


def at_random(seed: int) -> Judge:
    """Judge by chance."""
    random = np.random.default_rng(seed)
    return lambda entries: random.random(len(entries))


def prune(table: Path, output: str | Path, judge: Judge, share: float, *, relative: bool = False) -> Pruned:
    """Write a table without the given share of its lines; the others stay as they are, in order.

    Args:
        table: the phrase table, grouped by source; a file, for it is read twice.
        output: where to write, `-` for standard output.
        judge: gives the scores.
        share: of the lines to drop, from 0 to 1; fewer go if there are not so many besides each source's best.
        relative: compare scores after taking away the best one of their source. A source that can be translated in many
            ways has low scores for all of them, and would lose more than its share.

    Raises:
        UserError: the table is faulty, cannot be read twice, or the output cannot be written.
    """
    if str(table) == STANDARD_STREAM:
        raise UserError("standard input: cannot be read twice; give a file")
    scores, counts, sizes = [np.zeros(0, np.float32)], [np.zeros(0, np.float32)], _RunLengths()
    for chunk in TableReader(table):
        scores.append(judge(chunk.entries).astype(np.float32))
        joint = [entry.joint_count() for entry in chunk.entries]
        counts.append(np.array([1.0 if count is None else count for count in joint], np.float32))
        sizes.add([entry.source for entry in chunk.entries])
    score_P, offsets = np.concatenate(scores), offsets_of(np.array(sizes.lengths, np.int64))
    count_P = np.concatenate(counts)
    if relative and len(score_P):
        # A probability of zero stays the worst, also where it is the best of its source.
        best_P = np.repeat(np.maximum.reduceat(score_P, offsets[:-1]), np.diff(offsets))
        score_P = np.subtract(score_P, best_P, out=np.full_like(score_P, -np.inf), where=np.isfinite(score_P))
    kept_P, threshold = _kept(score_P, offsets, share)
    with open_output(output) as stream:
        stream.writelines(_kept_lines(table, kept_P))
    extractions_kept = float(count_P[kept_P].sum(dtype=np.float64) / max(count_P.sum(dtype=np.float64), 1e-9))
    return Pruned(len(score_P), int(kept_P.sum()), len(sizes.lengths), threshold, extractions_kept)


class _RunLengths:
    """How many neighbouring lines have the same source, over chunks."""

    def __init__(self) -> None:
        self.lengths: list[int] = []
        self._last: bytes | None = None

    def add(self, sources: list[bytes]) -> None:
        for source, run in groupby(sources):
            length = len(list(run))
            if source == self._last:
                self.lengths[-1] += length
            else:
                self.lengths.append(length)
            self._last = source


def _kept(
    score_P: NDArray[np.float32], offsets: NDArray[np.int64], share: float
) -> tuple[NDArray[np.bool_], float | None]:
    """Return which lines stay, and the best score that goes."""
    source_P = np.repeat(np.arange(len(offsets) - 1), np.diff(offsets))
    by_source = np.lexsort((-score_P, source_P))
    is_best_P = np.zeros(len(score_P), np.bool_)
    is_best_P[by_source[offsets[:-1]]] = True
    others = np.flatnonzero(~is_best_P)
    dropped = others[np.argsort(score_P[others], kind="stable")][: round(share * len(score_P))]
    kept_P = np.ones(len(score_P), np.bool_)
    kept_P[dropped] = False
    return kept_P, float(score_P[dropped[-1]]) if len(dropped) else None


def _kept_lines(table: Path, kept_P: NDArray[np.bool_]) -> Iterator[bytes]:
    line = 0
    for chunk in TableReader(table):
        for entry in chunk.entries:
            if kept_P[line]:
                yield entry.to_line()
            line += 1
