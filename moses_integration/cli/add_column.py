"""`phrasescore-smt add-column`: write a moses.ini that uses an annotated table."""

from __future__ import annotations

import argparse
from itertools import islice
from pathlib import Path

from moses_integration.cli.options import finite_number, read_ini, require_rereadable
from moses_integration.ini import NEW_WEIGHT, add_columns, files_at, score_count
from moses_integration.per_text.context_sections import networks_of
from phrasescore.cli.console import Reporter
from phrasescore.errors import UserError, spelled
from phrasescore.files import read_lines, require_writable
from phrasescore.text import counted
from phrasescore.words import join_words

_COMPARED, _LINES_TO_READ = 100, 1_000_000
"""The number of annotated lines to look up, and of original lines to read: the check takes a second or two."""


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the command."""
    parser = subparsers.add_parser(
        "add-column",
        help="write a moses.ini that uses an annotated table",
        description="Write a copy of a moses.ini with the path of an annotated phrase table, its number of "
        "features, and weights for the new columns. Nothing else changes. Tune the result.",
        examples=("phrasescore-smt add-column system/tuned.ini --table phrase-table.rnn.gz -o system/moses.rnn.ini",),
    )
    parser.add_argument("ini", type=Path, metavar="INI", help="moses.ini")
    parser.add_argument(
        "--table", type=Path, required=True, metavar="TABLE", help="phrase table that `phrasescore annotate` wrote"
    )
    parser.add_argument("--feature", metavar="LABEL", help="label of the phrase table in the ini, if there are several")
    parser.add_argument(
        "--weight",
        type=finite_number,
        metavar="X",
        help=f"initial weight of each new column (default: {NEW_WEIGHT}, or the mean of the table's other weights if "
        "that is less)",
    )
    parser.add_argument("-o", "--output", type=Path, required=True, metavar="INI", help="moses.ini to write")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Run the command."""
    require_writable(args.output, inputs=(args.ini, args.table))
    require_rereadable(args.table, why="the ini will name it")
    reporter = Reporter(quiet=False)
    ini = read_ini(args.ini, reporter, outputs=[args.output])
    if networks_of(ini):
        raise UserError(
            f"{ini.name}: has a column in context, which stays the last; add others to the ini from before, then tune "
            f"with {spelled('in_context')}"
        )
    label = args.feature or ini.phrase_table().label
    before = ini.feature(label)
    # `add_columns` reports a table without a new column, with advice.
    columns = max(1, score_count(args.table) - before.width)
    own = ini.path_of(before) if "path" in before.arguments else None
    add_columns(ini, label, args.table, columns, args.weight)
    if own is not None:
        _require_pairs_of(args.table, own, ini.name)
    ini.require_valid_at(args.output)
    ini.write(args.output)
    added = counted(columns, "new column")
    reporter.log(
        f"{args.output}: written, with {args.table} ({added}) as {label}; tune its weights with `phrasescore-smt tune`"
    )
    return 0


def _require_pairs_of(table: Path, own: Path, ini: str) -> None:
    """Check that the first phrase pairs of a table are also in the table that it replaces.

    The check reads only the start of that table, so it takes little time.
    """
    found = [file for file in files_at(own) if file.suffix != ".minphr"]
    if not found:
        return
    missing = {_pair_of(line) for line in islice(read_lines(table), _COMPARED)}
    for number, line in enumerate(read_lines(found[0])):
        missing.discard(_pair_of(line))
        if not missing or number == _LINES_TO_READ:
            return
    raise UserError(f"{table}: has phrase pairs that {found[0]} lacks, which {ini} names; annotate that table")


def _pair_of(line: bytes) -> tuple[bytes, ...]:
    return tuple(map(join_words, line.split(b"|||")[:2]))
