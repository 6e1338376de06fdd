"""Options that several experiments have."""

from __future__ import annotations

import argparse
from pathlib import Path


def add_origin_option(parser: argparse.ArgumentParser) -> None:
    """Add --from, as `origin`."""
    parser.add_argument(
        "--from",
        dest="origin",
        type=Path,
        metavar="FOLDER",
        help="with Multi30k's files, train.lc.norm.tok.en and so on: data/task1/tok of github.com/multi30k/dataset",
    )


def share(text: str) -> float:
    """Parse a number from 0 to 1."""
    try:
        number = float(text)
    except ValueError:
        number = -1.0
    if not 0 <= number <= 1:
        raise argparse.ArgumentTypeError(f"{text} is not a number from 0 to 1")
    return number
