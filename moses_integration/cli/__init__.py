"""The command line `phrasescore-smt`."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from phrasescore.files import complete_standard_streams

# See `phrasescore.cli`.
complete_standard_streams()

from moses_integration.cli import (
    add_column,
    add_lm,
    build,
    combine,
    decode,
    ems_hook,
    estimate_gain,
    evaluate,
    expected_bleu,
    prepare,
    rescore,
    serve,
    strip_tags,
    text_table,
    tune,
)
from phrasescore.cli.parser import CommandParser
from phrasescore.cli.running import make_command_parser, run_program

_COMMANDS = (
    *(build, tune, decode, evaluate, add_column, estimate_gain, expected_bleu, add_lm, rescore, combine),
    *(serve, prepare, text_table, strip_tags, ems_hook),
)


def make_parser() -> CommandParser:
    """Return the parser of the whole command line."""
    return make_command_parser(
        "phrasescore-smt", "From parallel text to tuned BLEU, with an installed Moses or without one.", _COMMANDS
    )


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command; return its exit code."""
    given = sys.argv[1:] if argv is None else argv
    try:
        return run_program(make_parser(), given)
    except SystemExit as end:
        if end.code and given[:1] == ["ems-hook"]:
            ems_hook.report_failure(end.code)
        raise
