"""`phrasescore lm`: train a neural language model and score texts with it."""

from __future__ import annotations

import argparse

from phrasescore.cli.lm import score, train


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the command and its subcommands."""
    parser = subparsers.add_parser(
        "lm",
        help="train a neural language model, and score texts with it",
        description="The continuous-space language model (CSLM) that Cho et al. (2014) used beside their network.",
    )
    commands = parser.add_subparsers(metavar="COMMAND", required=True, prog=parser.prog)
    train.add_parser(commands)
    score.add_parser(commands)
