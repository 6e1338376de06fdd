"""The command line: the only module that parses arguments, prints text and chooses exit codes.

Modules that import PyTorch are imported where they are used, so that `--help` and usage errors do not wait for it.
"""

from __future__ import annotations

from collections.abc import Sequence

from phrasescore.files import complete_standard_streams

# Open closed standard streams first: libraries open files when they are imported (libffi does for NumPy), and those
# must not get the descriptor of a standard stream.
complete_standard_streams()

from phrasescore.cli import annotate, check, inspect, join, lm, prune, score, train, translate
from phrasescore.cli.parser import CommandParser
from phrasescore.cli.running import make_command_parser, run_program

_COMMANDS = (train, annotate, join, prune, score, translate, check, inspect, lm)


def make_parser() -> CommandParser:
    """Return the parser of the whole command line."""
    return make_command_parser(
        "phrasescore", "Neural scores for Moses phrase tables, after Cho et al. (EMNLP 2014).", _COMMANDS
    )


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command; return its exit code."""
    return run_program(make_parser(), argv)
