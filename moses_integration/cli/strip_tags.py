"""`phrasescore-smt strip-tags`: remove the position tags that `text-table` adds to words."""

from __future__ import annotations

import argparse

from phrasescore.cli.options import path_or_standard_stream


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the command."""
    parser = subparsers.add_parser(
        "strip-tags",
        help="remove position tags from translations",
        description="Remove the position tags of `text-table` from words that a decoder has copied, in translations, "
        "n-best lists or any other output.",
        examples=("moses -f test.indexed/moses.ini < test.indexed/text | phrasescore-smt strip-tags > test.tokens",),
    )
    parser.add_argument(
        "text",
        type=path_or_standard_stream,
        nargs="?",
        default="-",
        metavar="TEXT",
        help="output of a decoder (default: standard input)",
    )
    parser.add_argument(
        "-o",
        "--output",
        type=path_or_standard_stream,
        default="-",
        metavar="TEXT",
        help="the same without tags (default: standard output)",
    )
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Run the command."""
    from moses_integration.text_table.position_tags import strip_tags
    from phrasescore.files import require_writable, write_lines
    from phrasescore.text import text_lines

    require_writable(args.output, inputs=[args.text])
    write_lines(args.output, map(strip_tags, text_lines(args.text)))
    return 0
