"""`phrasescore annotate`: append the scores of a network to every line of a phrase table."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING

from phrasescore.cli import options
from phrasescore.cli.console import Reporter, duration
from phrasescore.cli.parser import Subparsers
from phrasescore.cli.section_options import add_section_options, given_options
from phrasescore.errors import UsageError, arg_name
from phrasescore.files import (
    STANDARD_STREAM,
    display_name,
    require_one_standard_input,
    require_rereadable,
    require_writable,
    sha256_of_input,
    write_json,
)
from phrasescore.model_files import files_of_models
from phrasescore.scoring.annotate_config import AnnotateConfig
from phrasescore.text import counted
from phrasescore.vocabulary import MANY_UNKNOWN

if TYPE_CHECKING:
    from phrasescore.scoring.annotate import Counts
    from phrasescore.scoring.estimate import Estimate
    from phrasescore.scoring.scorer import PhraseScorer

_DOUBT = (
    "; check that it was trained on this table, or on a table with the same languages, direction, tokenisation and "
    "casing"
)


def add_parser(subparsers: Subparsers) -> None:
    parser = subparsers.add_parser(
        "annotate",
        help="append the scores of a network to a phrase table",
        description="Append exp(ln p(target | source)) as the last score of each line of a Moses phrase table; nothing "
        "else changes. The same command resumes an interrupted run.",
        most_used=("table", "models", "output", "columns", "only_sources_in", "processes", "device", "dry_run"),
        examples=(
            "phrasescore annotate phrase-table.gz -m rnn -o phrase-table.rnn.gz",
            "phrasescore annotate phrase-table.gz -m rnn -o phrase-table.rnn.gz --columns score unknown-target",
        ),
    )
    options.add_table(parser)
    options.add_model_option(parser)
    text = "table to write, compressed by its suffix; - for standard output (default: -, unless it is a terminal)"
    options.add_output(parser, text, default=None)
    options.add_path(parser, "--report", "FILE", "write counts, settings and checksums as JSON")
    text = "read and score for a few seconds, estimate lines, time, memory and the output's size, and write nothing"
    options.add_switch(parser, "--dry-run", text)
    add_section_options(parser, "annotating", AnnotateConfig)
    options.add_device_options(parser)
    options.add_quiet_option(parser)
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    from phrasescore.scoring.annotate import annotate, report_on
    from phrasescore.scoring.estimate import estimate

    config, reporter = AnnotateConfig(**given_options(args, AnnotateConfig)), Reporter(quiet=args.quiet)
    _check_usage(args, config)
    digest = sha256_of_input(args.table) if args.report else None
    scorer = options.load_models(args, reporter)
    models = ", ".join(map(str, args.models))
    reporter.log(f"scoring {display_name(args.table)} with {models} ({scorer.direction}) on {scorer.device}")
    if args.dry_run:
        _print_estimate(estimate(args.table, scorer, config, args.output))
        return 0
    with reporter.task("annotating") as task:

        def on_chunk(counts: Counts, share: float | None) -> None:
            task.update(share, f"{counts.lines_read:,} lines, {_rate(counts):,.0f} lines/s")

        counts = annotate(args.table, scorer, args.output, config, progress=on_chunk, log=reporter.log)
    _summarise(reporter, counts)
    _suggest_next(reporter, args.output, config, scorer, counts)
    if args.report:
        write_json(args.report, report_on(args.table, digest, scorer, args.output, config, counts))
    return 0


def _check_usage(args: argparse.Namespace, config: AnnotateConfig) -> None:
    """Check, before anything is loaded, that the options are compatible and the outputs can be written."""
    from phrasescore.scoring.shards import description_of

    config.check(args.table)
    require_one_standard_input(args.table, *config.only_sources_in)
    if args.dry_run:
        options.reject_without_effect(args, ("report", "scheduler", "restart"), f"with {arg_name('dry_run')}")
        require_rereadable(args.table, why=f"{arg_name('dry_run')} reads the table twice")
        return
    if args.output is None and sys.stdout.isatty() and config.limit is None:
        raise UsageError(
            f"-o: is missing, and a whole table would be printed here; give a file, -o - or {arg_name('limit')}"
        )
    args.output = args.output or STANDARD_STREAM
    description = [description_of(args.output)] if config.shard and args.output != STANDARD_STREAM else []
    inputs = (args.table, *files_of_models(args.models), *config.only_sources_in)
    require_writable(args.output, args.report, *description, inputs=inputs)
    if args.output == STANDARD_STREAM:
        options.reject_without_effect(args, ["restart"], "with standard output, which cannot be resumed")


def _print_estimate(found: Estimate) -> None:
    about = "" if found.is_exact else "about "
    size = f"{found.size / 1e9:.1f} GB" if found.size >= 1e9 else f"{found.size / 1e6:.1f} MB"
    print(
        f"{about}{found.lines:,} lines; about {duration(found.seconds)}, {found.memory / 1e9:.1f} GB of memory and "
        f"{size} of output; processes: {found.processes}"
    )


def _rate(counts: Counts) -> float:
    """Return lines per second."""
    return (counts.lines_read - counts.lines_of_run_before) / max(counts.seconds, 1e-9)


def _summarise(reporter: Reporter, counts: Counts) -> None:
    """Log the numbers of lines and columns, and anything unusual."""
    # A shard of a small table may be empty.
    columns = "" if counts.columns_before is None else f"{counts.columns_before} columns -> {counts.columns_after}, "
    reporter.log(
        f"{counted(counts.lines_read, 'line')} read, {counts.lines_written:,} written, {columns}"
        f"{_rate(counts):,.0f} lines/s"
    )
    if counts.lines_of_run_before:
        reporter.log(f"{counts.lines_of_run_before:,} of them in an interrupted run")
    if counts.pairs_clipped:
        reporter.log(f"{counted(counts.pairs_clipped, 'score')} below the floor, clipped")
    if counts.faulty_lines:
        reporter.log(
            f"{counted(counts.faulty_lines, 'faulty line')}, {counts.faulty_lines_kept:,} of them kept; the first: "
            f"{counts.first_fault}"
        )
    for side, share in counts.words.shares().items():
        doubt = _DOUBT if share >= MANY_UNKNOWN else ""
        reporter.log(f"{share:.2%} of the {side} words are unknown to the network{doubt}")


def _suggest_next(
    reporter: Reporter, output: str | Path, config: AnnotateConfig, scorer: PhraseScorer, counts: Counts
) -> None:
    """Log the next command, unless most lines are malformed or unknown, or it cannot be determined."""
    is_unsound = 2 * counts.faulty_lines > counts.lines_read or counts.words.are_many_unknown()
    if output == STANDARD_STREAM or is_unsound:
        return
    if config.shard is not None:
        reporter.log("next: phrasescore join SHARD... -o TABLE, when all shards are written")
    elif config.replace_last is None and config.limit is None:
        weight = "" if scorer.columns[0].kind == "log-probability" else " --weight W"
        table = quote(str(output))
        reporter.log(f"next: phrasescore-smt add-column moses.ini --table {table}{weight} -o NEW.ini")
