"""`join`: texts one after the other."""

from __future__ import annotations

import argparse
from itertools import chain
from pathlib import Path

from phrasescore.files import read_lines, write_lines


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the command."""
    parser = subparsers.add_parser("join", help="write texts one after the other", description=__doc__)
    parser.add_argument("texts", nargs="+", type=Path, metavar="TEXT")
    parser.add_argument("-o", "--output", type=Path, required=True, metavar="TEXT", help="file to write")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Run the command."""
    write_lines(args.output, chain.from_iterable(map(read_lines, args.texts)))
    return 0
