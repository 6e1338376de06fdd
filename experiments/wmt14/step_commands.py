"""The commands that steps are made of, as one program."""

from __future__ import annotations

from collections.abc import Sequence

from experiments.wmt14.commands import (
    align,
    bleu,
    draw,
    filter,
    join,
    language_model,
    prepare,
    select,
    stand_in,
    tables,
    unpack,
)
from phrasescore.cli.console import run_command
from phrasescore.cli.options import make_command_parser

STEP_COMMANDS = (stand_in, unpack, prepare, select, join, align, language_model, tables, filter, draw, bleu)


def main(argv: Sequence[str]) -> int:
    """Run a command; return its exit code."""
    args = make_command_parser("experiments.wmt14", "The steps of the experiment.", STEP_COMMANDS).parse_args(argv)
    return run_command(f"experiments.wmt14 {args.command}", lambda: int(args.run(args)))
