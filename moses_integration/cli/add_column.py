"""`phrasescore-smt add-column`: write a moses.ini that uses an annotated table."""

from __future__ import annotations

import argparse

from moses_integration.cli import system_options
from moses_integration.ini import add_columns, require_pairs_of, score_count
from moses_integration.per_text.context_sections import networks_of
from phrasescore.cli.console import Reporter
from phrasescore.cli.options import add_path
from phrasescore.cli.parser import Subparsers
from phrasescore.errors import UserError, arg_name
from phrasescore.files import require_rereadable, require_writable
from phrasescore.table.check import compression_problem
from phrasescore.text import counted


def add_parser(subparsers: Subparsers) -> None:
    parser = subparsers.add_parser(
        "add-column",
        help="write a moses.ini that uses an annotated table",
        description="Write a copy of a moses.ini with the path of an annotated phrase table, its number of "
        "features, and weights for the new columns. Nothing else changes. Tune the result.",
        examples=("phrasescore-smt add-column system/tuned.ini --table phrase-table.rnn.gz -o system/moses.rnn.ini",),
    )
    system_options.add_ini(parser)
    add_path(parser, "--table", "TABLE", "phrase table that `phrasescore annotate` wrote", required=True)
    parser.add_argument("--feature", metavar="LABEL", help="label of the phrase table in the ini, if there are several")
    system_options.add_weight_option(parser, "of each new column", "table")
    system_options.add_ini_output(parser)
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    require_writable(args.output, inputs=(args.ini, args.table))
    require_rereadable(args.table, why="the ini will name it")
    reporter = Reporter(quiet=False)
    ini = system_options.read_ini(args.ini, reporter, outputs=[args.output])
    if networks_of(ini):
        raise UserError(
            f"{ini.name}: has a column in context, which must remain the last column; add other columns to the ini "
            f"without it, then tune with {arg_name('in_context')}"
        )
    label = args.feature or ini.phrase_table().label
    before = ini.feature(label)
    # `add_columns` reports a table without a new column, with advice.
    columns = max(1, score_count(args.table) - before.width)
    own = ini.path_of(before) if "path" in before.arguments else None
    add_columns(ini, label, args.table, columns, args.weight)
    if own is not None:
        require_pairs_of(args.table, own, ini.name)
    ini.require_valid_at(args.output)
    ini.write(args.output)
    if problem := compression_problem(args.table):
        reporter.log(f"{args.table}: {problem}, unless you decode with the embedded toolkit")
    added = counted(columns, "new column")
    reporter.log(
        f"{args.output}: written, with {args.table} ({added}) as {label}; tune its weights with `phrasescore-smt tune`"
    )
    return 0
