"""`join`: texts one after the other."""

from __future__ import annotations

import argparse
from pathlib import Path

from phrasescore.files import open_output, read_lines


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the command."""
    parser = subparsers.add_parser("join", help="write texts one after the other", description=__doc__)
    parser.add_argument("texts", nargs="+", type=Path, metavar="TEXT")
    parser.add_argument("-o", "--output", type=Path, required=True, metavar="TEXT", help="file to write")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Run the command."""
    with open_output(args.output) as stream:
        for text in args.texts:
            stream.writelines(line + b"\n" for line in read_lines(text))
    return 0
