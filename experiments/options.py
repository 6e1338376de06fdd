"""Options that several experiments have."""

from __future__ import annotations

import argparse
from pathlib import Path

from experiments.data.multi30k import DEFAULT_FOLDER


def add_origin_option(parser: argparse.ArgumentParser) -> None:
    """Add --from, as `origin`."""
    parser.add_argument(
        "--from",
        dest="origin",
        type=Path,
        default=DEFAULT_FOLDER,
        help="folder of Multi30k's files, train.lc.norm.tok.en and so on (default: shared/data/multi30k beside the "
        "repository)",
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
