"""Estimate time and memory of annotating a table from a sample of a few seconds."""

from __future__ import annotations

import math
import resource
import sys
import time
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

from phrasescore.scoring.annotate import FEW_CHUNKS, Counts, annotate
from phrasescore.scoring.annotate_config import AnnotateConfig
from phrasescore.scoring.scorer import PhraseScorer
from phrasescore.table.reader import CHUNK_LINES, read_blocks
from phrasescore.workers import available_cores

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


def estimate(table: str | Path, scorer: PhraseScorer, config: AnnotateConfig) -> Estimate:
    """Read a table for two seconds and annotate it for five, in this process, without writing; see `annotate`.

    The estimated time assumes that each process is as fast as this process, and does not include their start. More
    processes than cores do not reduce it.
    """
    lines, is_exact = _count_lines(table, config.limit)
    speed = _measure(table, scorer, replace(config, shard=None, processes=1))
    shard = config.parsed_shard()
    lines = lines // shard.of if shard else lines
    chunks = math.ceil(lines / CHUNK_LINES)
    number = 1 if chunks <= FEW_CHUNKS else min(scorer.device.processes(config.processes), chunks)
    at_once = min(number, available_cores()) if scorer.device.torch_device.type == "cpu" else number
    # ru_maxrss is in kilobytes on Linux and in bytes on macOS.
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)
    return Estimate(lines, is_exact and not shard, lines / speed / at_once, number, peak * (number + (number > 1)))


def _count_lines(table: str | Path, limit: int | None) -> tuple[int, bool]:
    """Return the number of lines, and whether it is exact; otherwise it is extrapolated from the part that was read."""
    started, lines = time.monotonic(), 0
    for block in read_blocks(table, limit, _BLOCK_LINES):
        lines += block.lines
        if block.share_read is not None and time.monotonic() - started > _SECONDS_OF_READING:
            return round(lines / block.share_read), False
    return lines, True


def _measure(table: str | Path, scorer: PhraseScorer, config: AnnotateConfig) -> float:
    """Return the lines per second that this process annotates."""
    seen = Counts()

    def progress(counts: Counts, share: float | None) -> None:
        nonlocal seen
        seen = counts
        if counts.seconds > _SECONDS_OF_SCORING:
            raise _EnoughError

    with suppress(_EnoughError):
        annotate(table, scorer, None, config, block_lines=_BLOCK_LINES, progress=progress)
    return seen.lines_read / seen.seconds


class _EnoughError(Exception):
    """Ends the measurement."""
