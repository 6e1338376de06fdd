"""`phrasescore prune`: drop the less useful lines of a phrase table."""

from __future__ import annotations

import argparse
from dataclasses import replace
from pathlib import Path

from phrasescore.cli import options
from phrasescore.cli.console import Reporter
from phrasescore.cli.parser import Subparsers
from phrasescore.cli.section_options import add_section_options, given_options
from phrasescore.files import STANDARD_STREAM, require_writable
from phrasescore.model_files import files_of_models
from phrasescore.table.prune import PruneConfig, prune
from phrasescore.text import counted


def add_parser(subparsers: Subparsers) -> None:
    parser = subparsers.add_parser(
        "prune",
        help="drop the less useful lines of a phrase table",
        description="Give each line of a Moses phrase table a value by a criterion, and write the lines with the "
        "largest values. Lines and their order stay the same. Of lines with equal values, those with fewer source "
        "words are kept, then (by count) those more probable given the source, then the first. If an earlier run was "
        "interrupted, rerunning the same command resumes it. The output is identical for any number of processes.",
        examples=(
            "phrasescore prune phrase-table.gz -o phrase-table.small.gz --keep 0.2 --reordering reordering-table.gz "
            "reordering-table.small.gz",
            "phrasescore prune phrase-table.gz -o phrase-table.small.gz --by significance --threshold alpha+epsilon "
            "--top 30",
        ),
    )
    options.add_path(parser, "table", "TABLE", "phrase table")
    text = "table to write, compressed by its suffix; - for standard output"
    options.add_output(parser, text, required=True)
    text = "reordering table of the system, and the file to write with its lines for the same phrase pairs"
    parser.add_argument("--reordering", type=Path, nargs=2, metavar=("TABLE", "FILE"), help=text)
    options.add_model_option(parser, required=False)
    add_section_options(parser, "pruning", PruneConfig)
    options.add_device_options(parser)
    options.add_quiet_option(parser)
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    config, reporter = PruneConfig(**given_options(args, PruneConfig)), Reporter(quiet=args.quiet)
    config.check(args.table, has_model=bool(args.models))
    reordering, smaller = args.reordering or (None, None)
    require_writable(args.output, smaller, inputs=(args.table, reordering, *files_of_models(args.models or [])))
    if not args.models:
        options.reject_without_effect(args, ["device", "precision", "plugins"], "without a model")
    if args.output == STANDARD_STREAM:
        options.reject_without_effect(args, ["restart"], "with standard output, which cannot be resumed")
    with reporter.task("pruning") as task:
        if args.models:
            scorer = options.load_models(args, reporter)
            config = replace(config, processes=scorer.device.processes(config.processes))
            criterion = scorer.criterion()
        else:
            criterion = config.criterion(args.table)
        log, progress = reporter.log, task.update
        pruned = prune(
            args.table, args.output, config, criterion, reordering=args.reordering, log=log, progress=progress
        )
    reporter.log(f"{counted(pruned.lines_read, 'line')} read, {pruned.lines_written:,} written")
    if faulty := pruned.faulty_lines:
        reporter.log(f"{counted(faulty, 'faulty line')}, kept if possible; the first: {pruned.first_fault}")
    if args.output != STANDARD_STREAM:
        also = "" if smaller is None else f", and {smaller} as that of LexicalReordering"
        table = f"set {args.output} as the path of the phrase table{also}"
        reporter.log(f"next: in moses.ini, {table}; then decode, or tune first")
    return 0
