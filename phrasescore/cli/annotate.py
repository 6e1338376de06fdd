"""`phrasescore annotate`: append the scores of a network to every line of a phrase table."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from phrasescore.cli.annotate_report import advice, make_report, rate, summarise, warn_of_texts
from phrasescore.cli.console import Reporter, duration
from phrasescore.cli.options import (
    add_device_options,
    add_model_option,
    add_quiet_option,
    add_section_options,
    given_options,
    path_or_standard_stream,
    refuse_idle,
)
from phrasescore.errors import UsageError, spelled
from phrasescore.files import (
    STANDARD_STREAM,
    display_name,
    require_one_standard_input,
    require_writable,
    sha256_of_input,
    write_json,
)
from phrasescore.model_files import files_of_models
from phrasescore.scoring.annotate_config import AnnotateConfig
from phrasescore.table.selection import require_table_file

if TYPE_CHECKING:
    from phrasescore.scoring.annotate import Counts
    from phrasescore.scoring.estimate import Estimate


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the command."""
    parser = subparsers.add_parser(
        "annotate",
        help="append the scores of a network to a phrase table",
        description="Append exp(ln p(target | source)) as the last score of every line of a Moses phrase table; Moses "
        "takes the logarithm of a column, so its feature is ln p. Every other byte and the order of the lines stay the "
        "same. If an earlier run was interrupted, rerunning the same command resumes it. The output is identical for "
        "any number of processes.",
        most_used=("table", "models", "output", "columns", "only_sources_in", "processes", "device", "dry_run"),
        examples=(
            "phrasescore annotate phrase-table.gz -m rnn -o phrase-table.rnn.gz",
            "phrasescore annotate phrase-table.gz -m rnn -o phrase-table.rnn.gz --columns score unknown-target",
        ),
    )
    parser.add_argument(
        "table", type=path_or_standard_stream, metavar="TABLE", help="phrase table, - for standard input"
    )
    add_model_option(parser)
    parser.add_argument(
        "-o",
        "--output",
        type=path_or_standard_stream,
        metavar="FILE",
        help="table to write, compressed by its suffix; - for standard output (default: -, unless it is a terminal)",
    )
    parser.add_argument("--report", type=Path, metavar="FILE", help="write counts, settings and checksums as JSON")
    parser.add_argument(
        "--dry-run",
        action="store_true",
        help="read and score for a few seconds, estimate lines, time and memory, and write nothing",
    )
    add_section_options(parser, "annotating", AnnotateConfig)
    add_device_options(parser)
    add_quiet_option(parser)
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Run the command; return the exit code."""
    from phrasescore.device import settle_memory
    from phrasescore.scoring.annotate import annotate
    from phrasescore.scoring.estimate import estimate
    from phrasescore.scoring.scorer import load_scorer

    config, reporter = AnnotateConfig(**given_options(args, AnnotateConfig)), Reporter(quiet=args.quiet)
    _check_usage(args, config)
    digest = sha256_of_input(args.table) if args.report else None
    settle_memory()
    scorer = load_scorer(*args.models, device=args.device, precision=args.precision)
    options = config.arguments(scorer, reporter.log)
    models = ", ".join(map(str, args.models))
    reporter.log(f"scoring {display_name(args.table)} with {models} ({scorer.direction}) on {scorer.device}")
    if scorer.note is not None:
        reporter.log(scorer.note)
    if args.dry_run:
        _print_estimate(estimate(args.table, scorer, **options))
        return 0
    with reporter.task("annotating") as task:

        def on_block(counts: Counts, share: float | None) -> None:
            task.update(share, f"{counts.lines_read:,} lines, {rate(counts):,.0f} lines/s")

        counts = annotate(
            args.table, scorer, args.output, restart=config.restart, progress=on_block, log=reporter.log, **options
        )
    summarise(reporter, counts)
    if options["only_sources"] is not None and config.limit is None and config.shard is None:
        warn_of_texts(reporter, counts, options["only_sources"].get())
    columns = options["columns"] or scorer.columns[:1]
    if (next_command := advice(args.output, config, scorer, counts)) is not None:
        reporter.log(f"next: {next_command}")
    if args.report:
        write_json(args.report, make_report(args, config, digest, scorer, columns, counts))
    return 0


def _check_usage(args: argparse.Namespace, config: AnnotateConfig) -> None:
    """Check, before anything is loaded, that the options are compatible and the outputs can be written."""
    from phrasescore.scoring.parts import description_of

    config.check(args.table)
    if args.dry_run:
        refuse_idle(args, ("report",), "with --dry-run")
        require_table_file(args.table, "dry_run")
    else:
        if args.output is None and sys.stdout.isatty() and config.limit is None:
            raise UsageError("-o: is missing, and a whole table would be printed here; give a file, -o - or --limit")
        args.output = args.output or STANDARD_STREAM
        part = [description_of(args.output)] if config.shard and args.output != STANDARD_STREAM else []
        inputs = (args.table, *files_of_models(args.models), *config.only_sources_in)
        require_writable(args.output, args.report, *part, inputs=inputs)
        if config.restart and args.output == STANDARD_STREAM:
            raise UsageError(
                f"{spelled('restart')}: changes nothing with standard output, which cannot be resumed; give -o FILE, "
                "or leave it out"
            )
    require_one_standard_input(args.table, *config.only_sources_in)


def _print_estimate(found: Estimate) -> None:
    about = "" if found.is_exact else "about "
    print(
        f"{about}{found.lines:,} lines; about {duration(found.seconds)} and {found.memory / 1e9:.1f} GB of memory, "
        f"processes: {found.processes}"
    )
