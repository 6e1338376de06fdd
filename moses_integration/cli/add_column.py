"""`phrasescore-smt add-column`: let a moses.ini use the annotated table."""

from __future__ import annotations

import argparse
from pathlib import Path

from moses_integration.cli.options import finite, read_ini
from moses_integration.ini import NEW_WEIGHT
from moses_integration.placed import IN_CONTEXT
from phrasescore.cli.console import Reporter
from phrasescore.cli.options import positive
from phrasescore.documents import read_json
from phrasescore.errors import UserError
from phrasescore.files import require_other_file


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the command."""
    parser = subparsers.add_parser(
        "add-column",
        help="let a moses.ini use the annotated table",
        description="Move three numbers together: the table, num-features, and the weights. All else stays.",
    )
    parser.add_argument("ini", type=Path, metavar="INI", help="moses.ini")
    parser.add_argument("--table", type=Path, required=True, metavar="TABLE", help="the annotated phrase table")
    number = parser.add_mutually_exclusive_group()
    number.add_argument(
        "--columns", type=positive, default=1, metavar="N", help="how many scores it has more (default: %(default)s)"
    )
    number.add_argument(
        "--report", type=Path, metavar="FILE", help="take that from the report of `phrasescore annotate`"
    )
    parser.add_argument("--feature", metavar="LABEL", help="the phrase table meant, if there are several")
    parser.add_argument(
        "--weight",
        type=finite,
        default=NEW_WEIGHT,
        metavar="X",
        help="first weight of a new column (default: %(default)s)",
    )
    parser.add_argument("-o", "--output", type=Path, required=True, metavar="INI", help="moses.ini to write")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Run the command."""
    require_other_file(args.output, args.ini, args.table)
    reporter = Reporter(quiet=False)
    ini = read_ini(args.ini, reporter)
    if ini.remarks(IN_CONTEXT):
        raise UserError(
            f"{ini.name}: has a column in context, which stays the last; add others to the ini from before, then tune "
            "with --in-context"
        )
    label = args.feature or ini.phrase_table().label
    columns = args.columns
    if args.report:
        columns, names = _appended(args.report)
        reporter.say(f"{args.report}: {', '.join(names)}")
    ini.add_columns(label, args.table, columns, args.weight)
    ini.require_placeable(args.output)
    ini.write(args.output)
    reporter.say(f"{args.output}: written, with {args.table} as {label}; tune its weights with `phrasescore-smt tune`")
    return 0


def _appended(report: Path) -> tuple[int, list[str]]:
    """Return how many scores more a table has by the report of `phrasescore annotate`, and the names of the new ones.

    Raises:
        UserError: it is no such report.
    """
    advice = "give the file that `phrasescore annotate --report` wrote, or --columns"
    columns = read_json(report, advice).get("columns")
    names = columns.get("names") if isinstance(columns, dict) else None
    if not isinstance(columns, dict) or not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        raise UserError(f"{report}: does not say which columns were appended; {advice}")
    # One that took the place of another has its weight already.
    return len(names) - (columns.get("replace_last") is not None), names
