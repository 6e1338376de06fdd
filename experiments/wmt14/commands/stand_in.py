"""`stand-in`: files by the names of the WMT downloads, of a small data set."""

from __future__ import annotations

import argparse
from pathlib import Path

from experiments.wmt14.corpora import read_corpora
from experiments.wmt14.stand_in import make_archives


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the command."""
    parser = subparsers.add_parser("stand-in", help="make small files in the place of downloads", description=__doc__)
    parser.add_argument("data", type=Path, help="folder with train, dev and test, as experiments.data makes it")
    parser.add_argument("-o", "--output", type=Path, required=True, metavar="FOLDER", help="where the files go")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Run the command."""
    make_archives(args.data, read_corpora(), args.output)
    return 0
