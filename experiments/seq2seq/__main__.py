"""Train, measure and compare the family's members. A run that was stopped goes on where it was."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from experiments import ablation
from experiments.ablation.config import read_config as read_ablation_config
from experiments.ablation.run import Ablation
from experiments.ablation.summary import shown, summary
from experiments.data.wheels import default_cache
from experiments.options import add_origin_option
from experiments.seq2seq.config import Config, read_config
from experiments.seq2seq.phrases import PhraseComparison
from experiments.seq2seq.report import table
from experiments.seq2seq.run import Comparison
from experiments.steps import say
from phrasescore.cli.console import run_command
from phrasescore.cli.options import positive
from phrasescore.files import write_atomically

CONFIGS = Path(__file__).parent / "configs"
COMPARISONS = ("tutorial", "luong", "lecture", "attention", "multi30k-en-fr-s2s", "phrases")
"""In the order of the whole comparison: the fifth is an ablation, and makes the table that the last one needs."""
ABLATION = "multi30k-en-fr-s2s"


def parse_arguments() -> argparse.Namespace:
    """Return the options."""
    parser = argparse.ArgumentParser(prog="python -m experiments.seq2seq", description=__doc__)
    parser.add_argument("config", help=f"one of {', '.join(COMPARISONS)}; all, for all of them; or a TOML file")
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
        help="change the configurations, but not the ablation's: --set 'common.dropout = 0.2'",
    )
    parser.add_argument(
        "--ablation",
        type=Path,
        metavar="FOLDER",
        help=f"folder of a finished ablation of Multi30k English-French, for phrases (default: {ABLATION} in --output)",
    )
    add_origin_option(parser)
    parser.add_argument(
        "--device", default="auto", help="auto, cpu or cuda[:N]; the ablation takes auto (default: %(default)s)"
    )
    parser.add_argument(
        "--processes",
        type=positive,
        default=1,
        help="systems to train and measure at once, but for the ablation's, and phrase scorers on a GPU "
        "(default: %(default)s)",
    )
    return parser.parse_args()


def run(args: argparse.Namespace) -> int:
    """Run one comparison, or all; print the tables, and of all of them write one page after each."""
    names = COMPARISONS if args.config == "all" else (args.config,)
    tables: list[str] = []
    # What is wrong with the last one is said before the first one's hours.
    configs = {name: _config(args, name) for name in names if name != ABLATION}
    for name in names:
        tables.append(_compare(args, name, configs.get(name)))
        if args.config == "all":
            write_atomically(args.output / "report.md", "\n".join(tables).encode())
    print("\n".join(tables))
    return 0


def _config(args: argparse.Namespace, name: str) -> Config:
    path = CONFIGS / f"{name}.toml"
    return read_config(path if path.exists() else Path(name), args.set, gpu=args.gpu)


def _compare(args: argparse.Namespace, name: str, config: Config | None) -> str:
    """Run a comparison, the ablation if it has no configuration of ours; return its table."""
    folder: Path = args.output / (f"{Path(name).stem}-gpu" if args.gpu and name != ABLATION else Path(name).stem)
    ablation_config = read_ablation_config(Path(ablation.__file__).parent / "configs" / f"{ABLATION}.toml")
    data_options = {"origin": args.origin, "cache": default_cache()}
    if config is None:
        return shown(summary(Ablation(ablation_config, folder, data_options, say).run()))
    if config.phrases is None:
        return table(Comparison(config, folder, args.origin, args.device, say, args.processes).run())
    place = (ablation_config, args.ablation or args.output / ABLATION)
    return table(PhraseComparison(config, folder, place, data_options, args.device, say, args.processes).run())


if __name__ == "__main__":
    arguments = parse_arguments()
    sys.exit(run_command("experiments.seq2seq", lambda: run(arguments)))
