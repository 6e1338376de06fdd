"""Reports of `phrasescore annotate`: summary, warnings, the next command, and a JSON file."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Any

from phrasescore.cli.console import Reporter
from phrasescore.files import STANDARD_STREAM
from phrasescore.scoring.annotate_config import AnnotateConfig
from phrasescore.scoring.columns import FLOOR, Column
from phrasescore.text import counted

if TYPE_CHECKING:
    from phrasescore.scoring.annotate import Counts
    from phrasescore.scoring.scorer import PhraseScorer

REPORT_SCHEMA = 5
_DOUBT = (
    "; check that it was trained on this table, or on one with the same languages on the same sides, tokenised and "
    "cased alike"
)


def advice(output: str | Path, config: AnnotateConfig, scorer: PhraseScorer, counts: Counts) -> str | None:
    """Return the next command, None if most lines are malformed or unknown, or if it cannot be determined."""
    if output == STANDARD_STREAM or not _is_sound(counts):
        return None
    if config.shard is not None:
        return "phrasescore join PART... -o TABLE, when all of them are there"
    if config.replace_last is not None or config.limit is not None:
        return None
    weight = "" if scorer.columns[0].values == "log-probability" else " --weight W"
    return f"phrasescore-smt add-column moses.ini --table {quote(str(output))}{weight} -o NEW.ini"


def make_report(
    args: argparse.Namespace,
    config: AnnotateConfig,
    digest: str | None,
    scorer: PhraseScorer,
    columns: Sequence[Column],
    counts: Counts,
) -> dict[str, Any]:
    """Return the counts and the provenance of the scores; `digest` is the SHA-256 of the table."""
    from phrasescore.versions import versions

    return {
        "schema": REPORT_SCHEMA,
        "input": str(args.table),
        "input_sha256": digest,
        "output": str(args.output),
        "scorer": scorer.described(),
        "columns": {
            "names": [column.name for column in columns],
            "replace_last": config.replace_last,
            "floor": FLOOR,
        },
        "lines": {
            "only_sources_in": [str(path) for path in config.only_sources_in] or None,
            "limit": config.limit,
            "shard": config.shard,
            "on_error": config.on_error,
        },
        "computing": {"device": str(scorer.device.torch_device), "precision": scorer.device.precision},
        "counts": asdict(counts),
        "versions": versions(),
    }


def warn_of_texts(reporter: Reporter, counts: Counts, phrases: frozenset[bytes]) -> None:
    """Warn if few lines were kept: a table that matches the text has several lines for each of its words."""
    words = sum(b" " not in phrase for phrase in phrases)
    if counts.lines_written < words:
        reporter.log(
            f"only {counted(counts.lines_written, 'line')} kept for {words:,} different words in the texts of "
            "--only-sources-in; check that they are tokenised and cased as the table is"
        )


def rate(counts: Counts) -> float:
    """Return lines read per second."""
    return (counts.lines_read - counts.lines_of_run_before) / max(counts.seconds, 1e-9)


def summarise(reporter: Reporter, counts: Counts) -> None:
    """Log the numbers of lines and columns, and anything unusual."""
    # A shard of a small table may be empty.
    columns = "" if counts.columns_before is None else f"{counts.columns_before} columns -> {counts.columns_after}, "
    reporter.log(
        f"{counted(counts.lines_read, 'line')} read, {counts.lines_written:,} written, {columns}"
        f"{rate(counts):,.0f} lines/s"
    )
    if counts.lines_of_run_before:
        reporter.log(f"{counts.lines_of_run_before:,} of them by an interrupted run")
    if counts.pairs_clipped:
        reporter.log(f"{counted(counts.pairs_clipped, 'score')} below the floor, clipped")
    if counts.faulty_lines:
        reporter.log(
            f"{counted(counts.faulty_lines, 'faulty line')}, {counts.faulty_lines_kept:,} of them kept; the first: "
            f"{counts.first_fault}"
        )
    for side, (unknown, words) in _unknown_words(counts).items():
        if words:
            doubt = _DOUBT if _is_doubtful(unknown, words) else ""
            reporter.log(f"{unknown / words:.2%} of the {side} words are unknown to the network{doubt}")


def _unknown_words(counts: Counts) -> dict[str, tuple[int, int]]:
    """Return the numbers of unknown words and of all words for each side."""
    return {
        "source": (counts.source_words_unknown, counts.source_words),
        "target": (counts.target_words_unknown, counts.target_words),
    }


def _is_doubtful(unknown: int, words: int) -> bool:
    from phrasescore.scoring.scorer import MANY_UNKNOWN

    return words > 0 and unknown >= MANY_UNKNOWN * words


def _is_sound(counts: Counts) -> bool:
    """Return whether most lines have a score and most words are known; otherwise the next command would waste time."""
    if 2 * counts.faulty_lines > counts.lines_read:
        return False
    return not any(_is_doubtful(*side) for side in _unknown_words(counts).values())
