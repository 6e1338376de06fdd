"""`phrasescore join`: join the shards of a table that several jobs annotated."""

from __future__ import annotations

import argparse

from phrasescore.cli.console import Reporter
from phrasescore.cli.options import add_output, add_path, add_quiet_option
from phrasescore.cli.parser import Subparsers
from phrasescore.text import counted


def add_parser(subparsers: Subparsers) -> None:
    parser = subparsers.add_parser(
        "join",
        help="join the shards of a table that `annotate --shard` wrote",
        description="Join the shards of a table that an array of jobs annotated with --shard. Missing, damaged and "
        "foreign shards are errors.",
        examples=("phrasescore join part.*.gz -o phrase-table.rnn.gz",),
    )
    add_path(parser, "shards", "SHARD", "outputs of all jobs, each with its SHARD.shard.json", nargs="+")
    add_output(parser, "table to write, with the suffix of the shards; - for standard output", required=True)
    add_quiet_option(parser)
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    from phrasescore.scoring.shards import join_shards, without_descriptions

    shards = without_descriptions(args.shards)
    lines = join_shards(shards, args.output)
    Reporter(quiet=args.quiet).log(f"joined {counted(len(shards), 'shard')}: {counted(lines, 'line')}")
    return 0
