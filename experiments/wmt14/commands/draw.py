"""`draw`: a random share of the lines of a table.

The paper's network learnt from phrase pairs drawn at random, fewer than the table has. One pass over a random share is
that without holding the whole table's order in memory.
"""

from __future__ import annotations

import argparse
import random
from pathlib import Path

from experiments.options import share
from moses_integration.cli.options import natural
from phrasescore.files import open_input, open_output


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the command."""
    parser = subparsers.add_parser("draw", help="a random share of a table's lines", description=__doc__)
    parser.add_argument("table", type=Path, help="phrase table")
    parser.add_argument("-o", "--output", type=Path, required=True, metavar="TABLE", help="table to write")
    parser.add_argument("--share", type=share, required=True, metavar="X", help="from 0 to 1")
    parser.add_argument("--seed", type=natural, default=1, metavar="N", help="(default: %(default)s)")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Run the command."""
    generator = random.Random(args.seed)
    with open_input(args.table) as opened, open_output(args.output) as stream:
        stream.writelines(line for line in opened.stream if generator.random() < args.share)
    return 0
