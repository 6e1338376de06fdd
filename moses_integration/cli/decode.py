"""`phrasescore-smt decode`: translate sentences."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from moses_integration.cli import system_options
from moses_integration.prepared_text import work_folder
from phrasescore.cli.console import Reporter
from phrasescore.cli.options import add_nbest_option, add_output, add_quiet_option, nbest_of
from phrasescore.files import STANDARD_STREAM, require_one_standard_input, require_writable

if TYPE_CHECKING:
    from moses_integration.toolkits.toolkit import Toolkit


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the command."""
    parser = subparsers.add_parser(
        "decode",
        help="translate sentences",
        description="Translate sentences, one per line. Plain text gives plain text; with --prepared, tokens give "
        "tokens. If INI was tuned with --in-context, the per-text phrase table is built automatically.",
        most_used=("ini", "source", "output", "nbest", "prepared", "work", "processes"),
        examples=(
            "phrasescore-smt decode system/tuned.ini < test.en > test.fr",
            "phrasescore-smt decode system/tuned.ini --source test.en -o test.out --nbest test.nbest 100",
        ),
    )
    parser.add_argument("ini", type=Path, metavar="INI", help="moses.ini")
    system_options.add_source_option(parser)
    add_output(parser, "translations (default: standard output)")
    add_nbest_option(parser, "write n-best lists of SIZE distinct translations, tokenised, to FILE, too")
    parser.add_argument(
        "--work",
        type=Path,
        metavar="FOLDER",
        help="keep logs and filtered tables in this folder; rerunning the same command resumes",
    )
    system_options.add_prepared_option(parser)
    system_options.add_toolkit_options(parser)
    system_options.add_in_context_option(
        parser, "new folder of the network that INI was tuned with", "its folder when INI was tuned"
    )
    add_quiet_option(parser)
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Run the command."""
    from moses_integration.prepared_text import prepare_text, write_translations
    from moses_integration.toolkits.toolkit import NbestRequest
    from phrasescore.errors import naming
    from phrasescore.files import display_name, read_lines
    from phrasescore.vocabulary import WordCounts
    from phrasescore.words import split_words

    found = nbest_of(args)
    nbest = NbestRequest(*found) if found else None
    require_one_standard_input(args.ini, args.source)
    require_writable(args.output, nbest.path if nbest else None, inputs=(args.ini, args.source))
    reporter = Reporter(quiet=args.quiet)
    toolkit: Toolkit = system_options.toolkit_of(args, reporter)
    ini = system_options.read_ini(
        args.ini, reporter, outputs=(args.output, nbest.path if nbest else None), networks=args.in_context
    )
    ini.require_some_weight()
    ini, toolkit = system_options.system_in_context(args, ini, toolkit, reporter)
    with work_folder(args.work) as folder:
        prepared, tokens = folder / "input.prepared", folder / "output.tokens"
        with naming({prepared: Path(display_name(args.source))}):
            source = prepare_text(ini, "source", args.source, prepared, args.prepared, reporter.log)
            output = args.output if args.prepared else tokens
            # On a terminal, a progress bar would interrupt the translations.
            hidden = args.quiet or (output == STANDARD_STREAM and sys.stdout.isatty())
            with (
                Reporter(quiet=hidden).task("decoding") as task,
                toolkit.translator(ini, source, folder) as translate,
            ):
                unknown = translate(ini.weights(), output, nbest, task.count)
            words = sum(len(split_words(line)) for line in read_lines(source))
            name = display_name(args.source)
            WordCounts(words, unknown).warn_if_many_unknown(name, "phrase table", reporter.log)
        if args.prepared:
            return 0
        write_translations(ini, args.output, read_lines(tokens))
    return 0
