"""`tables`: phrase and reordering table of an aligned text, and the moses.ini beside them."""

from __future__ import annotations

import argparse
from dataclasses import asdict
from pathlib import Path

from experiments.wmt14.commands.prepare import SETTINGS
from moses_integration.build.corpus import Corpus
from moses_integration.build.system import write_initial_ini
from moses_integration.build.system_text import PREPARATION
from moses_integration.cli.options import add_toolkit_options, toolkit_of
from phrasescore.cli.console import Reporter
from phrasescore.cli.options import positive
from phrasescore.files import write_json


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the command."""
    parser = subparsers.add_parser("tables", help="make a system of aligned text", description=__doc__)
    parser.add_argument("source", type=Path, metavar="SOURCE", help="prepared text, STEM.LANGUAGE")
    parser.add_argument("target", type=Path, metavar="TARGET", help="its translation, STEM.LANGUAGE with the same STEM")
    parser.add_argument("alignment", type=Path, metavar="ALIGNMENT", help="links, a line a pair")
    parser.add_argument("-o", "--output", type=Path, required=True, metavar="FOLDER", help="system folder")
    parser.add_argument("--lm", type=Path, required=True, metavar="FILE", help="language model")
    parser.add_argument("--order", type=positive, default=5, metavar="N", help="of that (default: %(default)s)")
    parser.add_argument(
        "--longest-phrase", type=positive, default=7, metavar="N", help="words of a phrase (default: %(default)s)"
    )
    add_toolkit_options(parser)
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Run the command."""
    toolkit = toolkit_of(args, Reporter(quiet=False))
    args.output.mkdir(parents=True, exist_ok=True)
    toolkit.build_tables(Corpus(args.source, args.target, args.alignment), args.output, args.longest_phrase)
    write_json(args.output / PREPARATION, asdict(SETTINGS))
    write_initial_ini(args.output, str(args.lm.resolve()), args.order)
    return 0
