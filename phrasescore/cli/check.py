"""`phrasescore check`: describe a phrase table and find lines that Moses would reject."""

from __future__ import annotations

import argparse
from collections import Counter
from dataclasses import asdict
from typing import Any

from phrasescore.cli.console import Reporter
from phrasescore.cli.options import add_number, add_quiet_option, add_switch, add_table
from phrasescore.cli.parser import Subparsers
from phrasescore.files.documents import to_json
from phrasescore.table.check import TableReport, check_table
from phrasescore.text import counted

_PROBLEMS_SHOWN = 20


def add_parser(subparsers: Subparsers) -> None:
    parser = subparsers.add_parser(
        "check",
        help="report what is in a phrase table and what Moses would reject",
        description="Read a whole phrase table, and report its columns, fields and phrase lengths, and every problem: "
        "lines that Moses would reject or silently misread. The exit code is 1 if there is a problem.",
        examples=("phrasescore check phrase-table.rnn.gz --num-features 5",),
    )
    add_table(parser)
    add_number(parser, "--num-features", "expected number of score columns, that of moses.ini")
    add_number(parser, "--limit", "read only the first N lines")
    add_switch(parser, "--json", "print the findings as JSON")
    add_quiet_option(parser, "show no progress")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    reporter = Reporter(quiet=args.quiet)
    with reporter.task("checking") as task:
        report = check_table(args.table, columns=args.num_features, limit=args.limit, progress=task.update)
    print(to_json(_as_json(report)).decode().rstrip() if args.json else "\n".join(_as_text(report, args.limit)))
    return 1 if report.problems else 0


def _as_json(report: TableReport) -> dict[str, Any]:
    values = {key: dict(value) if isinstance(value, Counter) else value for key, value in vars(report).items()}
    return {**values, "columns": [asdict(column) for column in report.columns]}


def _as_text(report: TableReport, limit: int | None) -> list[str]:
    lines = [
        f"lines             {report.lines:,}",
        f"distinct sources  {report.distinct_sources:,}",
        f"fields            {_histogram(report.fields)}",
        f"source words      {_histogram(report.source_lengths)}",
        f"target words      {_histogram(report.target_lengths)}",
    ]
    for number, column in enumerate(report.columns, start=1):
        extra = f", {column.floored:,} that Moses floors at -100" if column.floored else ""
        extra += f", {column.above_one:,} above 1" if column.above_one else ""
        lines.append(f"score {number}           {column.smallest:g} to {column.largest:g}{extra}")
    if report.undecodable_words:
        lines.append(f"note: {report.undecodable_words:,} words are not valid UTF-8, so they are unknown to a network")
    lines.extend(f"note: {note}" for note in report.notes)
    for problem, count in report.problems.most_common(_PROBLEMS_SHOWN):
        first = report.first_lines.get(problem)
        place = "of the" if first is None else f"in {counted(count, 'line')}, first in line {first:,}:"
        lines.append(f"PROBLEM {place} {problem}")
    hidden = len(report.problems) - _PROBLEMS_SHOWN
    if hidden > 0:
        lines.append(f"and {hidden} other kinds of problems")
    if not report.problems and report.lines == limit:
        lines.append(f"no problems in the first {counted(limit, 'line')}")
    elif not report.problems:
        lines.append("no problems: Moses would load this table")
    return lines


def _histogram(counts: Counter[int]) -> str:
    total = sum(counts.values())
    return "  ".join(f"{key}: {counts[key] / total:.1%}" for key in sorted(counts))
