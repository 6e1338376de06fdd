"""Tune, decode and compare the rows of an ablation. The same command resumes an interrupted run."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from experiments.ablation.config import read_config
from experiments.ablation.page.page import write_page
from experiments.ablation.run import Ablation
from experiments.ablation.summary import shown, summary
from experiments.data.multi30k import add_origin_option
from experiments.data.wheels import DEFAULT_CACHE
from experiments.steps import log
from phrasescore.cli.options import positive
from phrasescore.cli.parser import CommandParser
from phrasescore.cli.running import run_command

CONFIGS = Path(__file__).parent / "configs"


def parse_arguments() -> argparse.Namespace:
    """Return the options."""
    parser = CommandParser(prog="python -m experiments.ablation", description=__doc__)
    names = ", ".join(sorted(path.stem for path in CONFIGS.glob("*.toml")))
    parser.add_argument("config", help=f"a TOML file, or one of {names}")
    parser.add_argument("--output", type=Path, help="folder for everything (default: results/ablation/NAME)")
    parser.add_argument(
        "--set",
        action="append",
        default=[],
        metavar="TOML",
        help="""change the configuration, as in --set 'toolkit = "moses"' --set 'build.aligner = "hmm"'""",
    )
    add_origin_option(parser)
    parser.add_argument(
        "--cache", type=Path, default=DEFAULT_CACHE, help="where downloads are kept (default: %(default)s)"
    )
    parser.add_argument("--processes", type=positive, help="processes to share the work among (default: all cores)")
    return parser.parse_args()


def run(args: argparse.Namespace) -> int:
    """Run the ablation, write its page, and print its table."""
    path = CONFIGS / f"{args.config}.toml"
    config = read_config(path if path.exists() else Path(args.config), args.set)
    folder = args.output or Path("results/ablation") / Path(args.config).stem
    options = {"origin": args.origin, "cache": args.cache}
    ablation = Ablation(config, folder, options, log, args.processes)
    report = ablation.run()
    write_page(report, folder)
    print(shown(summary(report)))
    print(f"Everything is in {folder}: report.html, report.json, summary.json, system/, the networks, rows/.")
    systems = " ".join(f"--system {name}={ini}" for name, ini in ablation.tuned_systems().items())
    print(f"To translate sentences on a page: {Path(sys.executable).with_name('phrasescore-smt')} serve {systems}")
    return 0


if __name__ == "__main__":
    arguments = parse_arguments()
    sys.exit(run_command("experiments.ablation", lambda: run(arguments)))
