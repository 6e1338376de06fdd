"""Write a data set as parallel text: train, dev and test, one sentence a line, and data.json, which describes them.

Where a source sentence has several references, as in the Bible, dev.TARGET.ref0, dev.TARGET.ref1 and so on stand in the
place of dev.TARGET, and likewise for test.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from experiments.data import DATA_SETS, prepare
from experiments.data.bible import list_versions
from experiments.data.folder import PARTS, DataFolder
from experiments.data.multi30k import add_origin_option
from experiments.data.wheels import CACHE_VARIABLE, default_cache
from phrasescore.cli.console import run_command


def parse_arguments(argv: Sequence[str] | None) -> argparse.Namespace:
    """Return the options."""
    parser = argparse.ArgumentParser(prog="python -m experiments.data", description=__doc__)
    parser.add_argument("name", choices=DATA_SETS, help="data set", metavar=f"{{{','.join(DATA_SETS)}}}")
    parser.add_argument("folder", type=Path, help="folder to write; one that is complete already is kept")
    parser.add_argument("--source", default="en", help="language code (default: %(default)s)")
    parser.add_argument("--target", default="fr", help="language code (default: %(default)s)")
    add_origin_option(parser)
    parser.add_argument(
        "--versions",
        nargs="+",
        default=(),
        metavar="VERSION",
        help="bible: versions to cross; the first of the source language is the source of dev and test, those of the "
        f"target language are its references (default: all of both languages): {list_versions()}",
    )
    parser.add_argument("--seed", type=int, default=1, help="gettext, bible: draws dev and test (default: %(default)s)")
    parser.add_argument(
        "--cache",
        type=Path,
        default=default_cache(),
        help=f"where downloads are kept (default: ${CACHE_VARIABLE} or %(default)s)",
    )
    return parser.parse_args(argv)


def summary(data: DataFolder) -> str:
    """Return what there is of each part as lines of text."""
    lines = [str(data.folder)]
    for part in PARTS:
        sizes = data.description["sizes"][part]
        words = " ".join(f"{count:,}" for count in sizes["target_words"])
        lines.append(f"{part:>7} {sizes['sentences']:>9,} sentences, {sizes['source_words']:,} -> {words} words")
    return "\n".join(lines)


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command; return its exit code."""
    args = parse_arguments(argv)
    return run_command("experiments.data", lambda: run(args))


def run(args: argparse.Namespace) -> int:
    """Prepare the data set; print what there is of it."""
    print(summary(prepare(**vars(args))))
    return 0


if __name__ == "__main__":
    sys.exit(main())
