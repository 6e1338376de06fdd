"""Write a phrase table without its worst pairs; each source keeps its best one."""

from __future__ import annotations

import argparse
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Any

from experiments.machine import machine
from experiments.options import share
from experiments.provenance import describe_file
from experiments.qualitative.network import load_scorer
from moses_integration.cli.options import finite, natural
from phrasescore.analysis.pruning import Judge, at_random, by_column, by_network, judge_table, prune
from phrasescore.cli.console import run_command
from phrasescore.cli.options import positive
from phrasescore.device import choose_device
from phrasescore.files import to_json
from phrasescore.model_folder import WEIGHTS

PROBABILITY_COLUMN = 3
"""Moses' probability of the target given the source."""
LOG_PROBS = ("network", "column")
"""What to judge by that can be taken per word."""


def add_judge_options(parser: argparse.ArgumentParser) -> None:
    """Add what pairs are judged by."""
    parser.add_argument(
        "--by",
        choices=(*LOG_PROBS, "table", "random"),
        required=True,
        help="ln p of the network (-m); the same from --column, which `phrasescore annotate` wrote; the table's "
        "probability of the target given the source; or chance",
    )
    parser.add_argument(
        "--relative", action="store_true", help="compare each score with the best one of the same source first"
    )
    parser.add_argument("-m", "--model", type=Path, metavar="FOLDER", help="model folder, for --by network")
    parser.add_argument("--column", type=positive, metavar="N", help="score column with exp(ln p), for --by column")
    parser.add_argument("--seed", type=natural, default=1, help="for --by random (default: %(default)s)")
    parser.add_argument("--device", default="auto", help="auto, cpu or cuda[:N] (default: %(default)s)")


def parse_with_judge(parser: argparse.ArgumentParser) -> argparse.Namespace:
    """Return the options, with all that judging needs."""
    args = parser.parse_args()
    if args.by == "network" and args.model is None:
        parser.error("--by network: needs a network; give --model")
    if args.by == "column" and args.column is None:
        parser.error("--by column: needs the number of a score column, from 1; give --column")
    return args


def judge_of(args: argparse.Namespace, table: Path) -> Judge:
    """Return what the options ask to judge a table by.

    Raises:
        UserError: the network cannot be loaded, or is of source given target.
    """
    if args.by == "network":
        return by_network(load_scorer(args.model, args.device))
    if args.by == "column":
        return by_column(args.column, table)
    return by_column(PROBABILITY_COLUMN, table) if args.by == "table" else at_random(args.seed)


def describe_judge(args: argparse.Namespace) -> dict[str, Any]:
    """Return what the options ask to judge by, for a report."""
    about: dict[str, Any] = {"by": args.by, "relative": args.relative}
    if args.by == "network":
        device = choose_device(args.device, "auto")
        about["weights"] = describe_file(args.model / WEIGHTS)
        about["computing"] = {"device": str(device.torch_device), "precision": device.precision}
    elif args.by == "column":
        about["column"] = args.column
    elif args.by == "random":
        about["seed"] = args.seed
    return about


def parse_arguments() -> argparse.Namespace:
    """Return the options."""
    parser = argparse.ArgumentParser(prog="python -m experiments.qualitative.prune", description=__doc__)
    parser.add_argument("table", type=Path, help="phrase table, grouped by source")
    parser.add_argument("-o", "--output", type=Path, required=True, metavar="FILE", help="table to write")
    parser.add_argument("--share", type=share, metavar="X", help="of the lines to drop, from 0 to 1")
    parser.add_argument(
        "--threshold",
        type=finite,
        metavar="X",
        help="drop the lines with a lower score, such as the one that experiments.qualitative finds to tell misaligned "
        "pairs; with --share at most so many of them",
    )
    add_judge_options(parser)
    parser.add_argument(
        "--per-word",
        action=argparse.BooleanOptionalAction,
        default=True,
        help="divide ln p by the number of target words plus one, for network and column (default: yes)",
    )
    args = parse_with_judge(parser)
    if args.share is None and args.threshold is None:
        parser.error("give --share, --threshold or both")
    return args


def run(args: argparse.Namespace) -> int:
    """Prune; print what happened as JSON."""
    per_word = args.per_word and args.by in LOG_PROBS
    # Now, for the output may take its place.
    table = describe_file(args.table)
    pruned = prune(
        args.table,
        args.output,
        judge_table(args.table, judge_of(args, args.table)),
        share=args.share,
        threshold=args.threshold,
        per_word=per_word,
        relative=args.relative,
    )
    report = {
        "schema": 1,
        "machine": machine(),
        "judge": {**describe_judge(args), "per_word": per_word},
        "share": args.share,
        "threshold": args.threshold,
        **asdict(pruned),
        "table": table,
        "output": describe_file(args.output),
    }
    print(to_json(report).decode(), end="")
    return 0


if __name__ == "__main__":
    arguments = parse_arguments()
    sys.exit(run_command("experiments.qualitative.prune", lambda: run(arguments)))
