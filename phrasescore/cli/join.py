"""`phrasescore join`: join the shards of a table annotated by a job array."""

from __future__ import annotations

import argparse
from pathlib import Path

from phrasescore.cli.console import Reporter
from phrasescore.cli.options import add_quiet_option, path_or_standard_stream
from phrasescore.scoring.shards import join_shards, without_descriptions
from phrasescore.text import counted


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the command."""
    parser = subparsers.add_parser(
        "join",
        help="join the shards of a table that `annotate --shard` wrote",
        description="Join the shards of a table that an array of jobs annotated with --shard. Shards that are "
        "missing or damaged, or that belong to another table, network or options than the others, are an error.",
        examples=("phrasescore join part.*.gz -o phrase-table.rnn.gz",),
    )
    parser.add_argument(
        "shards",
        nargs="+",
        type=Path,
        metavar="SHARD",
        help="outputs of all jobs, in any order; SHARD.shard.json must be beside each",
    )
    parser.add_argument(
        "-o",
        "--output",
        type=path_or_standard_stream,
        required=True,
        metavar="FILE",
        help="table to write, with the same suffix as the shards; - for standard output",
    )
    add_quiet_option(parser)
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Run the command; return the exit code."""
    shards = without_descriptions(args.shards)
    lines = join_shards(shards, args.output)
    Reporter(quiet=args.quiet).log(f"joined {counted(len(shards), 'shard')}: {counted(lines, 'line')}")
    return 0
