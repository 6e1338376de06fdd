"""`phrasescore-smt prepare`: prepare a text as the training text of a system was prepared."""

from __future__ import annotations

import argparse

from moses_integration.cli import system_options
from moses_integration.prepared_text import text_of, work_folder
from phrasescore.cli import options
from phrasescore.cli.console import Reporter
from phrasescore.cli.parser import Subparsers
from phrasescore.files import read_lines, require_writable, write_lines


def add_parser(subparsers: Subparsers) -> None:
    parser = subparsers.add_parser(
        "prepare",
        help="tokenise and case a text as the training text of a system",
        description="Prepare source text as `build` prepared the training text, and as `decode` does: for programs "
        "that require prepared text, such as `phrasescore translate`.",
        examples=("phrasescore-smt prepare system/moses.ini --source test.en -o test.prepared.en",),
    )
    system_options.add_ini(parser)
    system_options.add_source_option(parser)
    options.add_output(parser, "prepared text (default: standard output)")
    options.add_processes_option(parser)
    options.add_quiet_option(parser)
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    require_writable(args.output, inputs=[args.ini, args.source])
    reporter = Reporter(quiet=args.quiet)
    ini = system_options.read_ini(args.ini, reporter, outputs=[args.output])
    with work_folder(None) as folder:
        text_of(ini, "give the ini of a system of `build`").prepare(
            "source", args.source, folder / "source", reporter.log, args.processes
        )
        write_lines(args.output, read_lines(folder / "source"))
    return 0
