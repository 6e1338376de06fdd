"""`bleu`: BLEU of the rows of the experiment over their seeds, as a Markdown table and as JSON."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from moses_integration.cli.options import Distinct, natural
from moses_integration.evaluation import p_value_over_runs, score
from moses_integration.tuning.tune import spread
from phrasescore.files import write_json


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the command."""
    parser = subparsers.add_parser("bleu", help="BLEU of all rows and seeds", description=__doc__)
    parser.add_argument("folder", type=Path, help="has ROW.SEED, the translations of each")
    parser.add_argument("--rows", nargs="+", required=True, metavar="ROW", help="the first is the baseline")
    parser.add_argument("--seeds", nargs="+", type=natural, action=Distinct, required=True, metavar="N")
    parser.add_argument("--reference", type=Path, required=True, metavar="TEXT")
    parser.add_argument("-o", "--output", type=Path, required=True, metavar="FILE", help="JSON to write")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Run the command."""
    report: dict[str, Any] = {"rows": {}}
    runs = {row: [args.folder / f"{row}.{seed}" for seed in args.seeds] for row in args.rows}
    baseline = args.rows[0]
    print("| row | test BLEU | against the baseline | p |\n|---|---|---|---|")
    for row in args.rows:
        results = [score(run, [args.reference]) for run in runs[row]]
        mean, deviation = spread([result.bleu for result in results])
        found: dict[str, Any] = {"bleu": [result.bleu for result in results], "mean": mean, "deviation": deviation}
        report["signature"] = results[0].signature
        against = ["", ""]
        if row != baseline:
            found["p_value"] = p_value_over_runs(runs[row], runs[baseline], [args.reference])
            against = [f"{mean - report['rows'][baseline]['mean']:+.2f}", f"{found['p_value']:.4f}"]
        report["rows"][row] = found
        print(f"| {row} | {mean:.2f} ± {deviation:.2f} | {' | '.join(against)} |")
    write_json(args.output, report)
    return 0
