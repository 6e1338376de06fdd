"""`phrasescore-smt add-column`: let a moses.ini use the annotated table."""

from __future__ import annotations

import argparse
from pathlib import Path

from moses_integration.cli.options import finite, read_ini
from phrasescore.cli.console import Reporter
from phrasescore.cli.options import positive


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the command."""
    parser = subparsers.add_parser(
        "add-column",
        help="let a moses.ini use the annotated table",
        description="Move three numbers together: the table, num-features, and the weights. All else stays.",
    )
    parser.add_argument("ini", type=Path, metavar="INI", help="moses.ini")
    parser.add_argument("--table", type=Path, required=True, metavar="TABLE", help="the annotated phrase table")
    parser.add_argument(
        "--columns", type=positive, default=1, metavar="N", help="how many scores it has more (default: %(default)s)"
    )
    parser.add_argument("--feature", metavar="LABEL", help="the phrase table meant, if there are several")
    parser.add_argument(
        "--weight", type=finite, default=0.2, metavar="X", help="first weight of a new column (default: %(default)s)"
    )
    parser.add_argument("-o", "--output", type=Path, required=True, metavar="INI", help="moses.ini to write")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Run the command."""
    reporter = Reporter(quiet=False)
    ini = read_ini(args.ini, reporter)
    label = args.feature or ini.phrase_table().label
    ini.add_columns(label, args.table, args.columns, args.weight)
    ini.require_placeable(args.output)
    ini.write(args.output)
    reporter.say(f"{args.output}: written, with {args.table} as {label}; tune its weights with `phrasescore-smt tune`")
    return 0
