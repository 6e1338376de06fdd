"""Write one HTML page about finished ablations."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from experiments.report.page import SENTENCES, write_page
from moses_integration.cli.options import natural
from phrasescore.cli.console import run_command
from phrasescore.errors import UserError


def parse_arguments() -> argparse.Namespace:
    """Return the options."""
    parser = argparse.ArgumentParser(prog="python -m experiments.report", description=__doc__)
    for name, count, what in (
        ("folders", "+", "of experiments.ablation; unfinished ones are left out"),
        ("--qualitative", "*", "of experiments.qualitative"),
        ("--measurements", "*", "of experiments.speed"),
    ):
        parser.add_argument(name, type=Path, nargs=count, default=[], metavar="FOLDER", help=what)
    parser.add_argument(
        "--sentences",
        type=natural,
        default=SENTENCES,
        metavar="N",
        help="translations to show, at most; 0 for a page without the data set's text (default: %(default)s)",
    )
    parser.add_argument(
        "-o", "--output", type=Path, default=Path("results/report.html"), help="page to write (default: %(default)s)"
    )
    return parser.parse_args()


def run(args: argparse.Namespace) -> int:
    """Write the page; print where it is."""
    finished = [folder for folder in args.folders if (folder / "report.json").exists()]
    for folder in args.folders:
        if folder not in finished:
            print(f"{folder}: has no report.json yet, left out", file=sys.stderr)
    if not finished:
        raise UserError(f"{args.folders[0]}: has no report.json; run `python -m experiments.ablation` first")
    args.output.parent.mkdir(parents=True, exist_ok=True)
    write_page(finished, args.output, args.qualitative, args.measurements, args.sentences)
    print(f"{args.output}: {', '.join(map(str, finished))}")
    return 0


if __name__ == "__main__":
    arguments = parse_arguments()
    sys.exit(run_command("experiments.report", lambda: run(arguments)))
