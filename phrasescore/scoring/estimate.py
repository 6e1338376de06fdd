"""Estimate time and memory of annotating a table from a sample of a few seconds."""

from __future__ import annotations

import math
import resource
import sys
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from phrasescore.scoring.annotate import ALONE, Counts, annotate
from phrasescore.scoring.scorer import PhraseScorer
from phrasescore.table.reader import CHUNK_LINES, read_blocks
from phrasescore.table.selection import Shard
from phrasescore.workers import available_cores, start_workers

_SECONDS_OF_READING, _SECONDS_OF_SCORING = 2.0, 5.0
_BLOCK_LINES = 4096


@dataclass(frozen=True)
class Estimate:
    """Estimated cost of annotating a table."""

    lines: int
    is_exact: bool
    """Whether all lines were counted."""
    seconds: float
    processes: int
    memory: int
    """Bytes of all processes; shared memory counts for each process."""


def estimate(
    table: str | Path,
    scorer: PhraseScorer,
    *,
    limit: int | None = None,
    shard: Shard | None = None,
    processes: int | None = None,
    scheduler: str | None = None,
    **options: Any,
) -> Estimate:
    """Read a table for two seconds and annotate it for five, in this process, without writing.

    The estimated time assumes that each process is as fast as this process, and does not include their start.

    Args:
        table: the input file.
        scorer: computes the columns.
        limit: see `annotate`, as for the following arguments.
        shard: see `annotate`.
        processes: see `annotate`; more processes than cores do not reduce the time.
        scheduler: see `annotate`; the estimate asks it for its number of workers.
        options: see `annotate`.

    Raises:
        UserError: see `annotate`; only for the sample.
    """
    lines, is_exact = _count_lines(table, limit)
    speed = _measure(table, scorer, limit=limit, **options)
    lines = lines // shard.of if shard else lines
    blocks = math.ceil(lines / CHUNK_LINES)
    asked, at_once = _processes(scorer, processes, scheduler)
    number = 1 if blocks <= ALONE and scheduler is None else max(1, min(asked, blocks))
    # ru_maxrss is in kilobytes on Linux and in bytes on macOS.
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)
    return Estimate(
        lines, is_exact and not shard, lines / speed / min(number, at_once), number, peak * (number + (number > 1))
    )


def _processes(scorer: PhraseScorer, asked: int | None, scheduler: str | None) -> tuple[int, int]:
    """Return the number of processes or workers, and how many of them can compute at the same time."""
    if scheduler is not None:
        with start_workers("the scheduler has lost its workers; start them again", scheduler=scheduler) as workers:
            return workers.number, workers.number
    number = scorer.device.processes(asked)
    return number, available_cores() if scorer.device.torch_device.type == "cpu" else number


def _count_lines(table: str | Path, limit: int | None) -> tuple[int, bool]:
    """Return the number of lines, and whether it is exact; otherwise it is extrapolated from the part that was read."""
    started, lines, share = time.monotonic(), 0, None
    for block in read_blocks(table, limit, _BLOCK_LINES):
        lines, share = lines + block.lines, block.share_read
        if share is not None and time.monotonic() - started > _SECONDS_OF_READING:
            return round(lines / share), False
    return lines, True


def _measure(table: str | Path, scorer: PhraseScorer, **options: Any) -> float:
    """Return the lines per second that this process annotates."""
    seen = Counts()

    def progress(counts: Counts, share: float | None) -> None:
        nonlocal seen
        seen = counts
        if counts.seconds > _SECONDS_OF_SCORING:
            raise _EnoughError

    with suppress(_EnoughError):
        annotate(table, scorer, None, processes=1, block_lines=_BLOCK_LINES, progress=progress, **options)
    return seen.lines_read / seen.seconds


class _EnoughError(Exception):
    """Ends the measurement."""
