"""The command lines `phrasescore-smt` and `phrasescore-decoder`."""

from __future__ import annotations

import argparse
from collections.abc import Sequence

import shtab

from moses_integration.cli import add_column, build, decode, ems_hook, evaluate, tune
from phrasescore import __version__
from phrasescore.cli.console import run_command

_COMMANDS = (build, add_column, tune, decode, evaluate, ems_hook)


def make_parser() -> argparse.ArgumentParser:
    """Return the parser of the whole command line."""
    parser = argparse.ArgumentParser(
        prog="phrasescore-smt",
        description="From parallel text to tuned BLEU, with an installed Moses or without one.",
    )
    parser.add_argument("--version", action="version", version=f"phrasescore-smt {__version__}")
    shtab.add_argument_to(parser, "--print-completion")
    subparsers = parser.add_subparsers(dest="command", metavar="COMMAND", required=True)
    for command in _COMMANDS:
        command.add_parser(subparsers)
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command; return its exit code."""
    args = make_parser().parse_args(argv)
    return run_command(f"phrasescore-smt {args.command}", lambda: int(args.run(args)))
