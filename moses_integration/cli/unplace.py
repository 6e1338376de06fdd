"""`phrasescore-smt unplace`: words in place of the names that `place` gave."""

from __future__ import annotations

import argparse

from phrasescore.cli.options import path_or_standard_stream


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the command."""
    parser = subparsers.add_parser(
        "unplace",
        help="take the names of places off translations",
        description="Remove the names of `place` from words that a decoder has copied, in translations, n-best lists "
        "or any other output.",
    )
    parser.add_argument(
        "text",
        type=path_or_standard_stream,
        nargs="?",
        default="-",
        metavar="TEXT",
        help="what a decoder wrote (default: standard input)",
    )
    parser.add_argument(
        "-o",
        "--output",
        type=path_or_standard_stream,
        default="-",
        metavar="TEXT",
        help="the same without names (default: standard output)",
    )
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Run the command."""
    from moses_integration.placed.names import without_names
    from phrasescore.files import require_writable, write_lines
    from phrasescore.text import text_lines

    require_writable(args.output, inputs=[args.text])
    write_lines(args.output, map(without_names, text_lines(args.text)))
    return 0
