"""`phrasescore-smt build`: build a system folder from parallel text."""

from __future__ import annotations

import argparse
from pathlib import Path

from moses_integration.building.preparation import Casing, TextSettings, language_of
from moses_integration.building.system import BuildConfig, BuildInput, build_system
from moses_integration.cli.system_options import add_toolkit_options, toolkit_of
from phrasescore.cli import options
from phrasescore.cli.console import Reporter
from phrasescore.cli.parser import Subparsers
from phrasescore.cli.section_options import add_section_options, given_options
from phrasescore.errors import UsageError, UserError, arg_name
from phrasescore.files import require_rereadable


def add_parser(subparsers: Subparsers) -> None:
    parser = subparsers.add_parser(
        "build",
        help="build a system from parallel text",
        description="Build a phrase-based system: prepare and clean parallel text, align words, extract and score "
        "phrases, estimate the language model, and write moses.ini.",
        most_used=("source", "target", "output", "tokenised", "casing", "alignment", "validation", "processes"),
        examples=(
            "phrasescore-smt build --source train.en --target train.fr -o system",
            "phrasescore-smt build --source train.en --target train.fr -o system --tokenised --validation dev.en "
            "dev.fr",
        ),
    )
    options.add_path(parser, "--source", "TEXT", "source sentences, one per line", required=True)
    options.add_path(parser, "--target", "TEXT", "their translations", required=True)
    options.add_path(parser, "-o --output", "FOLDER", "system folder to write", required=True)
    group = parser.add_argument_group("text")
    for side in ("source", "target"):
        text = f"language code, such as en (default: the suffix of the file of --{side})"
        group.add_argument(f"--{side}-language", metavar="CODE", help=text)
    options.add_switch(group, "--tokenised", "the text is tokenised: split words at spaces only, and keep capitals")
    text = "lower-case the text, truecase it (each word as it is mostly written within sentences), or keep capitals "
    text += "(default: true; with --tokenised, keep)"
    group.add_argument("--casing", choices=("lower", "true", "keep"), help=text)
    options.add_switch(group, "--escaped", "the tokenised text has Moses' escapes, such as &apos;")
    group = add_section_options(parser, "models", BuildConfig)
    text = "word alignment of all lines, 0-0 1-2 ..., instead of aligning"
    options.add_path(group, "--alignment", "FILE", text)
    text = "other text, whose phrase pairs go to FOLDER/validation/phrase-table.gz, for `train --validation`"
    group.add_argument("--validation", nargs=2, type=Path, metavar=("SOURCE", "TARGET"), help=text)
    add_toolkit_options(parser)
    options.add_quiet_option(parser)
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    if args.alignment and not args.validation:
        given = f"with {arg_name('alignment')}, which is of all lines, and without {arg_name('validation')}"
        options.reject_without_effect(args, ["aligner", "longest_sentence"], given)
    if args.escaped and not args.tokenised:
        raise UsageError(
            f"{arg_name('escaped')}: tokenising would take the escapes apart; give {arg_name('tokenised')}, too, or "
            "text without them"
        )
    reporter = Reporter(quiet=args.quiet)
    toolkit = toolkit_of(args, reporter)
    toolkit.check_folder(args.output)
    texts = (args.source, args.target, args.alignment, *(args.validation or ()))
    require_rereadable(*texts, why="`build` reads its inputs several times")
    sides = (args.source, args.source_language, "source"), (args.target, args.target_language, "target")
    source, target = (language_of(*side, args.tokenised, reporter.log) for side in sides)
    if source == target:
        raise UserError(
            f"{args.source}: source and target language are both `{source}`; give {arg_name('source_language')} and "
            f"{arg_name('target_language')}"
        )
    casing: Casing = args.casing or ("keep" if args.tokenised else "true")
    with reporter.task("building") as task:
        ini = build_system(
            BuildInput(args.source, args.target, args.alignment, args.validation),
            args.output,
            TextSettings(source, target, tokenise=not args.tokenised, casing=casing, escape=not args.escaped),
            BuildConfig(**given_options(args, BuildConfig)),
            toolkit.build_tables,
            processes=args.processes,
            toolkit=str(toolkit),
            log=reporter.log,
            progress=task.update,
        )
    reporter.log(f"{ini.name}: written; tune its weights with `phrasescore-smt tune`")
    return 0
