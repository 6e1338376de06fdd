"""`phrasescore-smt decode`: translate sentences."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from moses_integration.cli import system_options
from moses_integration.prepared_text import prepare_text, work_folder, write_translations
from phrasescore.cli import options
from phrasescore.cli.console import Reporter
from phrasescore.cli.parser import Subparsers
from phrasescore.errors import UsageError, arg_name, reported_as
from phrasescore.files import STANDARD_STREAM, display_name, read_lines
from phrasescore.vocabulary import WordCounts
from phrasescore.words import split_words


def add_parser(subparsers: Subparsers) -> None:
    parser = subparsers.add_parser(
        "decode",
        help="translate sentences",
        description="Translate sentences, one per line. Plain text gives plain text; with --prepared, tokens give "
        "tokens. If INI was tuned with --in-context, its network scores the phrase pairs of the text automatically.",
        most_used=("ini", "source", "output", "nbest", "prepared", "work", "processes"),
        examples=(
            "phrasescore-smt decode system/tuned.ini < test.en > test.fr",
            "phrasescore-smt decode system/tuned.ini --source test.en -o test.out --nbest test.nbest 100",
        ),
    )
    system_options.add_ini(parser)
    system_options.add_source_option(parser)
    options.add_output(parser, "translations (default: standard output)")
    text = "write n-best lists of SIZE distinct translations, tokenised, to FILE, too"
    parser.add_argument("--nbest", nargs=2, metavar=("FILE", "SIZE"), help=text)
    text = "keep logs and filtered tables in this folder; rerunning the same command resumes the scoring in context"
    options.add_path(parser, "--work", "FOLDER", text)
    system_options.add_prepared_option(parser)
    system_options.add_toolkit_options(parser)
    system_options.add_in_context_option(
        parser, "folder of the network that INI was tuned with, if it has moved", "its folder when INI was tuned"
    )
    options.add_quiet_option(parser)
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    from moses_integration.toolkits.toolkit import NbestRequest

    nbest = NbestRequest(Path(args.nbest[0]), _size(args.nbest[1])) if args.nbest else None
    reporter = Reporter(quiet=args.quiet)
    ini, toolkit, _ = system_options.open_system(args, reporter, (args.output, nbest.path if nbest else None))
    with work_folder(args.work) as folder:
        prepared, tokens = folder / "input.prepared", folder / "output.tokens"
        with reported_as({prepared: Path(display_name(args.source))}):
            source = prepare_text(ini, "source", args.source, prepared, args.prepared, reporter.log, args.processes)
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


def _size(text: str) -> int:
    try:
        return options.positive(text)
    except (ValueError, argparse.ArgumentTypeError):
        raise UsageError(f"{arg_name('nbest')}: {text} is not a size of a list; give FILE SIZE") from None
