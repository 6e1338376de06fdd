"""`prepare`: tokenise and escape one side or both; of parallel text, keep the pairs that are fit for training."""

from __future__ import annotations

import argparse
from pathlib import Path

from experiments.wmt14.corpora import SOURCE, TARGET
from moses_integration.build.parallel_text import clean
from moses_integration.build.prepare import prepare_file
from moses_integration.build.system_text import TextSettings
from phrasescore.errors import UsageError

SETTINGS = TextSettings(SOURCE, TARGET, casing="keep")
"""Tokenised and escaped, capitals kept: the paper tells of no lower-casing."""


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the command."""
    parser = subparsers.add_parser("prepare", help="tokenise text, clean parallel text", description=__doc__)
    parser.add_argument("raw", nargs="+", type=Path, help="target text, or source and target")
    parser.add_argument("-o", "--output", nargs="+", type=Path, required=True, metavar="TEXT", help="a file for each")
    parser.add_argument("--keep-lines", action="store_true", help="drop no pair: for development and test text")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Run the command."""
    if len(args.raw) > 2 or len(args.output) != len(args.raw):
        raise UsageError("-o: give one text or two, and a file for each")
    sides = ("target",) if len(args.raw) == 1 else ("source", "target")
    drops = len(sides) == 2 and not args.keep_lines
    whole = [path.with_name(f"{path.name}.whole") if drops else path for path in args.output]
    for side, raw, output in zip(sides, args.raw, whole, strict=True):
        prepare_file(raw, output, SETTINGS.of(side))
    if drops:
        report = clean(*whole, *args.output)
        print(f"{args.output[0]}: {report.kept:,} of {report.pairs:,} pairs; dropped {dict(report.dropped)}")
        for path in whole:
            path.unlink()
    return 0
