"""`phrasescore-smt build`: build a system folder from parallel text."""

from __future__ import annotations

import argparse
import re
from collections.abc import Sequence
from pathlib import Path

from moses_integration.building.build_config import BuildConfig
from moses_integration.building.parallel_text import CleaningRules
from moses_integration.cli.options import add_toolkit_options, require_rereadable, toolkit_of
from phrasescore.cli.console import Reporter
from phrasescore.cli.options import add_quiet_option, add_section_options, given_options, refuse_idle
from phrasescore.errors import UsageError, UserError


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the command."""
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
    parser.add_argument("--source", type=Path, required=True, metavar="TEXT", help="source sentences, one per line")
    parser.add_argument("--target", type=Path, required=True, metavar="TEXT", help="their translations")
    parser.add_argument("-o", "--output", type=Path, required=True, metavar="FOLDER", help="system folder to write")
    text = parser.add_argument_group("text")
    for side in ("source", "target"):
        text.add_argument(
            f"--{side}-language",
            metavar="CODE",
            help=f"language code, such as en (default: the suffix of the file of --{side})",
        )
    text.add_argument(
        "--tokenised",
        action="store_true",
        help="the text is tokenised already: split words at white space only, and keep capitals",
    )
    text.add_argument(
        "--casing",
        choices=("lower", "true", "keep"),
        help="treatment of capitals: lower-case, truecase (each word as it is mostly written within sentences; "
        "translations begin with a capital), or keep them (default: true; with --tokenised, keep)",
    )
    text.add_argument(
        "--escaped",
        action="store_true",
        help="the text has the escapes of Moses already, such as &apos;; needs --tokenised",
    )
    add_section_options(parser, "cleaning", CleaningRules)
    models = add_section_options(parser, "models", BuildConfig)
    models.add_argument(
        "--alignment",
        type=Path,
        metavar="FILE",
        help="word alignment of all lines in the Pharaoh format, 0-0 1-2 ..., instead of aligning",
    )
    models.add_argument(
        "--validation",
        nargs=2,
        type=Path,
        metavar=("SOURCE", "TARGET"),
        help="other sentences and their translations, whose phrase pairs go to FOLDER/validation/phrase-table.gz, for "
        "`phrasescore train --validation`",
    )
    add_toolkit_options(parser)
    add_quiet_option(parser)
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Run the command."""
    from moses_integration.building.prepare import Casing
    from moses_integration.building.system import BuildSettings, build_system
    from moses_integration.building.system_text import TextSettings

    if args.alignment and not args.validation:
        given = "with --alignment, which is of all lines, and without --validation"
        refuse_idle(args, ["aligner", "seed", "longest_sentence", "ratio"], given)
    if args.escaped and not args.tokenised:
        raise UsageError(
            "--escaped: tokenising would take the escapes apart; give --tokenised too, or text without them"
        )
    config = BuildConfig(**given_options(args, BuildConfig))
    if config.aligner != "eflomal":
        refuse_idle(args, ["seed"], f"with --aligner {config.aligner}, which draws no random numbers")
    reporter = Reporter(quiet=args.quiet)
    toolkit = toolkit_of(args, reporter)
    toolkit.check_folder(args.output)
    texts = (args.source, args.target, args.alignment, *(args.validation or ()))
    require_rereadable(*texts, why="what a system is built of is read several times")
    languages = (_language(args.source_language, args.source), _language(args.target_language, args.target))
    if not args.tokenised:
        _require_languages(args, languages, reporter)
    if languages[0] == languages[1]:
        raise UserError(
            f"{args.source}: source and target language are both `{languages[0]}`; give --source-language and "
            "--target-language"
        )
    casing: Casing = args.casing or ("keep" if args.tokenised else "true")
    settings = BuildSettings(
        TextSettings(*languages, tokenise=not args.tokenised, casing=casing, escape=not args.escaped),
        CleaningRules(**given_options(args, CleaningRules)),
        config,
        args.processes,
    )
    with reporter.task("building") as task:
        ini = build_system(
            args.source,
            args.target,
            args.output,
            settings,
            toolkit.build_tables,
            args.alignment,
            args.validation,
            reporter.log,
            str(toolkit),
            task.update,
        )
    reporter.log(f"{ini.name}: written; tune its weights with `phrasescore-smt tune`")
    return 0


def _language(given: str | None, path: Path) -> str:
    """Return the given language, or else the extension of the file."""
    from moses_integration.building.system_text import is_language

    language = given or (path.with_suffix("") if path.suffix in (".gz", ".xz", ".zst", ".bz2") else path).suffix[1:]
    if not language:
        raise UserError(f"{path}: its name does not end in a language, as train.en does; give the language by option")
    if not is_language(language):
        raise UserError(f"{path}: `{language}` cannot be a language here; give letters and digits, as in en, by option")
    return language


def _require_languages(args: argparse.Namespace, languages: Sequence[str], reporter: Reporter) -> None:
    """Check that the language codes are valid; warn if the tokeniser has no rules for one."""
    from phrasescore.tokenisation import has_rules

    for side, language in zip(("source", "target"), languages, strict=True):
        if not re.fullmatch("[a-z]{2,3}", language):
            given = f"--{side}-language" if getattr(args, f"{side}_language") else getattr(args, side)
            raise UserError(
                f"{given}: `{language}` is no code of a language, two or three small letters by which words are split; "
                f"give one by --{side}-language, or --tokenised if they are split"
            )
        if not has_rules(language):
            reporter.log(
                f"{language}: the tokeniser does not know this language's abbreviations, and takes English ones"
            )
