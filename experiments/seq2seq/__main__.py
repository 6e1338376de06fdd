"""Train, measure and compare translators. A run that was stopped goes on where it was."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from experiments.data.multi30k import DEFAULT_FOLDER
from experiments.seq2seq.config import read_config
from experiments.seq2seq.report import table
from experiments.seq2seq.run import Comparison
from phrasescore.cli.console import run_command
from phrasescore.files import write_atomically

CONFIGS = Path(__file__).parent / "configs"


def parse_arguments() -> argparse.Namespace:
    """Return the options."""
    parser = argparse.ArgumentParser(prog="python -m experiments.seq2seq", description=__doc__)
    names = ", ".join(sorted(path.stem for path in CONFIGS.glob("*.toml")))
    parser.add_argument("config", help=f"a TOML file, or one of {names}")
    parser.add_argument("--output", type=Path, help="folder for everything (default: results/seq2seq/NAME)")
    parser.add_argument(
        "--set", action="append", default=[], metavar="TOML", help="change the configuration: --set 'common.epochs = 2'"
    )
    parser.add_argument("--from", dest="origin", type=Path, default=DEFAULT_FOLDER, help="folder of Multi30k's files")
    parser.add_argument("--device", default="auto", help="auto, cpu or cuda[:N] (default: %(default)s)")
    return parser.parse_args()


def run(args: argparse.Namespace) -> int:
    """Run the comparison; print its table."""
    path = CONFIGS / f"{args.config}.toml"
    config = read_config(path if path.exists() else Path(args.config), args.set)
    folder = args.output or Path("results/seq2seq") / Path(args.config).stem

    def say(text: str) -> None:
        print(text, file=sys.stderr, flush=True)

    report = Comparison(config, folder, args.origin, args.device, say).run()
    text = table(report)
    write_atomically(folder / "report.md", text.encode())
    print(text)
    return 0


if __name__ == "__main__":
    arguments = parse_arguments()
    sys.exit(run_command("experiments.seq2seq", lambda: run(arguments)))
