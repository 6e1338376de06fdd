"""`phrasescore-smt evaluate`: compute BLEU, chrF and TER, and the significance of differences."""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from dataclasses import asdict

from moses_integration.cli.system_options import add_reference_option
from moses_integration.metrics import SEED, TOKENISERS, TRIALS, Evaluated, evaluate
from phrasescore.cli.console import Reporter
from phrasescore.cli.options import add_path, add_switch
from phrasescore.cli.parser import Subparsers
from phrasescore.files import require_one_standard_input


def add_parser(subparsers: Subparsers) -> None:
    parser = subparsers.add_parser(
        "evaluate",
        help="BLEU, chrF and TER of translations, and the significance of a difference",
        description="Compute BLEU, chrF and TER by sacreBLEU, with signatures. Half of the 95 % confidence interval, "
        "by bootstrap over sentences, follows each score. With --baseline, also print the difference in BLEU and its "
        "p-value by paired approximate randomisation.",
        examples=("phrasescore-smt evaluate rnn.out cslm.out --baseline base.out --reference test.fr",),
    )
    add_path(parser, "translations", "TEXT", "translations, one file per system", nargs="+")
    add_reference_option(parser, "reference translations")
    add_path(parser, "--baseline", "TEXT", "translations of the system to compare with")
    text = "tokeniser of sacreBLEU; none for tokenised text (default: %(default)s)"
    parser.add_argument("--tokenise", choices=TOKENISERS, default="13a", help=text)
    add_switch(parser, "--lowercase", "ignore case, for a system of `build --casing lower`")
    add_switch(parser, "--json", "print JSON")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    require_one_standard_input(*args.translations, *args.reference, args.baseline)
    log, texts = Reporter(quiet=False).log, (args.translations, args.reference, args.baseline)
    systems = evaluate(*texts, args.tokenise, args.lowercase, log=log)
    if args.json:
        print(json.dumps({"systems": [asdict(one) for one in systems]}, indent=2))
        return 0
    print("\n".join(_table(systems)))
    for name, metric in systems[0].metrics.items():
        print(f"{name}: {metric.signature}")
    if args.baseline is not None:
        print(f"p: ar:{TRIALS}|seed:{SEED}")
    return 0


def _table(systems: Sequence[Evaluated]) -> list[str]:
    """Return a table with aligned columns: a header line, and a line for each system."""
    names = list(systems[0].metrics)
    rows = [["", *names]]
    for one in systems:
        cells = [f"{value.score:6.2f} ± {value.half_interval:.2f}" for value in one.metrics.values()]
        difference = ""
        if one.p_value is not None:
            gain = one.metrics["BLEU"].score - systems[0].metrics["BLEU"].score
            difference = f"{gain:+z.2f} BLEU, p = {one.p_value:.4f}"
        rows.append([one.translations, *cells, difference])
    widths = [max(len(row[column]) for row in rows) for column in range(len(names) + 1)]
    return [
        "  ".join(cell.ljust(width) for cell, width in zip(row, [*widths, 0], strict=False)).rstrip() for row in rows
    ]
