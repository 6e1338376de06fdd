"""`phrasescore-smt strip-tags`: remove the position tags of `text-table` from the output of a decoder."""

from __future__ import annotations

import argparse

from moses_integration.per_text.position_tags import strip_tags
from phrasescore.cli.options import add_input, add_output
from phrasescore.cli.parser import Subparsers
from phrasescore.files import require_writable, write_lines
from phrasescore.text import text_lines


def add_parser(subparsers: Subparsers) -> None:
    parser = subparsers.add_parser(
        "strip-tags",
        help="remove position tags from translations",
        description="Remove the position tags of `text-table` from words that a decoder has copied, in translations, "
        "n-best lists or any other output.",
        examples=("moses -f test.indexed/moses.ini < test.indexed/text | phrasescore-smt strip-tags > test.tokens",),
    )
    add_input(parser, "text", "output of a decoder")
    add_output(parser, "the same without tags (default: standard output)")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    require_writable(args.output, inputs=[args.text])
    write_lines(args.output, map(strip_tags, text_lines(args.text)))
    return 0
