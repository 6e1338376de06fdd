"""Estimate time, memory and size of annotating a table from a sample of a few seconds."""

from __future__ import annotations

import math
import resource
import sys
import time
from dataclasses import dataclass
from pathlib import Path

from phrasescore.scoring.annotate import Annotation, Counts, make_task, require_lines
from phrasescore.scoring.annotate_config import AnnotateConfig
from phrasescore.scoring.scorer import PhraseScorer
from phrasescore.table.reader import CHUNK_LINES, read_chunks
from phrasescore.workers import FEW_ITEMS, available_cores

_SECONDS_OF_READING, _SECONDS_OF_SCORING = 2.0, 5.0
_SAMPLED_LINES = 4096


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
    size: int


def estimate(
    table: str | Path, scorer: PhraseScorer, config: AnnotateConfig, output: str | Path | None = None
) -> Estimate:
    """Read a table for two seconds and annotate it for five, in this process, without writing; see `annotate`.

    The estimated time assumes that each process is as fast as this process, and does not include their start. More
    processes than cores do not reduce it. Without an output, its size is that of a file compressed as the table is.
    """
    lines, is_exact = _count_lines(table, config.limit)
    sampled, seconds, size = _measure(table, make_task(table, scorer, output or table, config), config.limit)
    shard = config.parsed_shard()
    lines = lines // shard.of if shard else lines
    chunks = math.ceil(lines / CHUNK_LINES)
    number = 1 if chunks <= FEW_ITEMS else min(scorer.device.processes(config.processes), chunks)
    at_once = min(number, available_cores()) if scorer.device.torch_device.type == "cpu" else number
    # ru_maxrss is in kilobytes on Linux and in bytes on macOS.
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)
    memory, scale = peak * (number + (number > 1)), lines / sampled
    return Estimate(lines, is_exact and not shard, scale * seconds / at_once, number, memory, round(scale * size))


def _count_lines(table: str | Path, limit: int | None) -> tuple[int, bool]:
    """Return the number of lines, and whether it is exact; otherwise it is extrapolated from the part that was read."""
    started, lines = time.monotonic(), 0
    for chunk in read_chunks(table, limit, _SAMPLED_LINES):
        lines += chunk.lines
        if chunk.share_read is not None and time.monotonic() - started > _SECONDS_OF_READING:
            return round(lines / chunk.share_read), False
    return lines, True


def _measure(table: str | Path, task: Annotation, limit: int | None) -> tuple[int, float, int]:
    """Annotate the first lines of a table; return their number, the time in seconds, and their compressed bytes."""
    counts, size = Counts(), 0
    for chunk in read_chunks(table, limit, _SAMPLED_LINES):
        started = time.monotonic()
        annotated, found, _ = task(chunk)
        found.seconds = time.monotonic() - started
        counts.add(found)
        size += len(annotated)
        if counts.seconds > _SECONDS_OF_SCORING:
            break
    else:
        require_lines(table, counts)
    return counts.lines_read, counts.seconds, size
