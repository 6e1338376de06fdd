"""Write a phrase table without its worst pairs; each source keeps its best one."""

from __future__ import annotations

import argparse
import json
import sys
from dataclasses import asdict
from pathlib import Path

from phrasescore.analysis.pruning import Judge, at_random, by_column, by_network, prune
from phrasescore.cli.console import run_command
from phrasescore.device import choose_device
from phrasescore.errors import UserError
from phrasescore.model_folder import load_model
from phrasescore.scoring.engine import Scorer

_PROBABILITY_COLUMN = 3
"""Moses' probability of the target given the source."""


def parse_arguments() -> argparse.Namespace:
    """Return the options."""
    parser = argparse.ArgumentParser(prog="python -m experiments.qualitative.prune", description=__doc__)
    parser.add_argument("table", type=Path, help="phrase table, grouped by source")
    parser.add_argument("-o", "--output", type=Path, required=True, metavar="FILE", help="table to write")
    parser.add_argument("--share", type=float, required=True, help="of the lines to drop, from 0 to 1")
    parser.add_argument(
        "--by",
        choices=("network", "column", "table", "random"),
        required=True,
        help="ln p of the network (-m); the same from --column, which `phrasescore annotate` wrote; the table's "
        "probability of the target given the source; or chance",
    )
    parser.add_argument(
        "--per-word",
        action=argparse.BooleanOptionalAction,
        default=True,
        help="divide ln p by the number of target words plus one, for network and column (default: yes)",
    )
    parser.add_argument(
        "--relative", action="store_true", help="compare each score with the best one of the same source first"
    )
    parser.add_argument("-m", "--model", type=Path, metavar="FOLDER", help="model folder, for --by network")
    parser.add_argument("--column", type=int, metavar="N", help="score column with exp(ln p), for --by column")
    parser.add_argument("--seed", type=int, default=1, help="for --by random (default: %(default)s)")
    parser.add_argument("--device", default="auto", help="auto, cpu or cuda[:N] (default: %(default)s)")
    return parser.parse_args()


def judge(args: argparse.Namespace) -> Judge:
    """Return what the options ask to judge by."""
    if args.by == "network":
        if args.model is None:
            raise UserError("--by network: needs a network; give --model")
        scorer = Scorer(load_model(args.model), choose_device(args.device, "auto"))
        return by_network(scorer, per_word=args.per_word)
    if args.by == "column":
        if args.column is None or args.column < 1:
            raise UserError("--by column: needs the number of a score column, from 1; give --column")
        return by_column(args.column, args.table, per_word=args.per_word)
    if args.by == "table":
        return by_column(_PROBABILITY_COLUMN, args.table, per_word=False)
    return at_random(args.seed)


def run(args: argparse.Namespace) -> int:
    """Prune; print what happened as JSON."""
    if not 0 <= args.share <= 1:
        raise UserError(f"--share: is {args.share:g}; give a number from 0 to 1")
    pruned = prune(args.table, args.output, judge(args), args.share, relative=args.relative)
    print(json.dumps(asdict(pruned), indent=2))
    return 0


if __name__ == "__main__":
    arguments = parse_arguments()
    sys.exit(run_command("experiments.qualitative.prune", lambda: run(arguments)))
