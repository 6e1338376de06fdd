"""Train, measure and compare encoder-decoders of the literature. The same command resumes an interrupted run."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from experiments.data import prepare, splits_of_tests
from experiments.data.multi30k import add_origin_option
from experiments.seq2seq.comparison import Material, compare
from experiments.seq2seq.config import Config, read_config
from experiments.seq2seq.phrase_scorers import Tables
from experiments.seq2seq.report import markdown
from experiments.seq2seq.translators import Sentences
from experiments.steps import log
from phrasescore.cli.parser import CommandParser
from phrasescore.cli.running import run_command
from phrasescore.errors import UsageError

CONFIGS = Path(__file__).parent / "configs"


def parse_arguments() -> argparse.Namespace:
    """Return the options."""
    parser = CommandParser(prog="python -m experiments.seq2seq", description=__doc__)
    names = ", ".join(sorted(path.stem for path in CONFIGS.glob("*.toml")))
    parser.add_argument("configs", nargs="+", metavar="CONFIG", help=f"{names}, or a TOML file")
    parser.add_argument(
        "--output",
        type=Path,
        default=Path("results/seq2seq"),
        help="folder with a folder for each comparison (default: %(default)s)",
    )
    parser.add_argument("--gpu", action="store_true", help="the sizes for a GPU: those of the section [gpu]")
    parser.add_argument(
        "--set",
        action="append",
        default=[],
        metavar="TOML",
        help="change the configurations: --set 'common.dropout = 0.2'",
    )
    parser.add_argument(
        "--tables",
        nargs=2,
        type=Path,
        metavar=("TABLE", "VALIDATION"),
        help="for phrases: the phrase table to learn from, and that of other sentences",
    )
    add_origin_option(parser)
    parser.add_argument("--device", default="auto", help="auto, cpu or cuda[:N] (default: %(default)s)")
    return parser.parse_args()


def run(args: argparse.Namespace) -> int:
    """Run the comparisons one after the other; print a table of each."""
    # Report errors in all configurations before the first comparison, which takes hours.
    paths = [path if (path := CONFIGS / f"{name}.toml").exists() else Path(name) for name in args.configs]
    configs = [read_config(path, args.set, gpu=args.gpu) for path in paths]
    if args.tables is None and any(config.task.learns_from == "table" for config in configs):
        raise UsageError("--tables: is needed for scorers of phrases; give a phrase table and one of other sentences")
    for path, config in zip(paths, configs, strict=True):
        folder = args.output / (f"{path.stem}-gpu" if args.gpu else path.stem)
        print(markdown(compare(config, _material(args, config, folder), folder, log)))
    return 0


def _material(args: argparse.Namespace, config: Config, folder: Path) -> Material:
    if config.task.learns_from == "table":
        return Tables(args.tables[0], args.tables[1], args.device)
    task = config.task
    data = prepare("multi30k", folder / "data", task.source, task.target, origin=args.origin, tests=task.test)
    return Sentences(data, splits_of_tests("multi30k", task.test), config.searches, args.device)


if __name__ == "__main__":
    arguments = parse_arguments()
    sys.exit(run_command("experiments.seq2seq", lambda: run(arguments)))
