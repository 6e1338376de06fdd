"""`phrasescore-smt combine`: combine n-best lists of several systems by minimum Bayes risk."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from moses_integration.cli import system_options
from moses_integration.nbest import ListFault, read_nbest
from moses_integration.per_text.position_tags import strip_tags
from moses_integration.prepared_text import text_of, work_folder
from phrasescore.cli import options
from phrasescore.cli.console import Reporter
from phrasescore.cli.parser import Subparsers
from phrasescore.errors import UsageError, UserError, arg_name
from phrasescore.files import display_name, read_lines, require_one_standard_input, require_writable, write_lines
from phrasescore.text import counted
from phrasescore.words import parse_number

if TYPE_CHECKING:
    from moses_integration.rescoring.minimum_bayes_risk import Posterior

_PERPLEXITY = 10.0


def add_parser(subparsers: Subparsers) -> None:
    parser = subparsers.add_parser(
        "combine",
        help="combine n-best lists of several systems",
        description="Write the translations with the highest expected BLEU under the n-best lists of one or more "
        "systems (minimum Bayes risk), such as the lists of `decode`, `rescore` and `translate`. The lists need no "
        "common features.",
        examples=(
            "phrasescore-smt combine rescored.nbest transformer.nbest --source test.en --ini tuned.ini -o test.out",
        ),
    )
    options.add_path(parser, "lists", "LIST", "n-best lists of the same text, one file per system", nargs="+")
    options.add_path(parser, "--source", "TEXT", "source sentences of the lists", required=True)
    options.add_output(parser, "translations (default: standard output)")
    text = "moses.ini of one of the lists: preparation of the text; without it, give --prepared"
    options.add_path(parser, "--ini", "INI", text)
    system_options.add_prepared_option(parser)
    text = "weights of the lists, 0 leaves a list out (default: 1 for each)"
    parser.add_argument("--weights", type=partial(_at_least, least=0), nargs="+", metavar="X", help=text)
    text = "mean perplexity of the probabilities of a list, at least 1; larger values give the translations after the "
    text += "first more influence (default: %(default)g)"
    parser.add_argument("--perplexity", type=partial(_at_least, least=1), default=_PERPLEXITY, metavar="X", help=text)
    options.add_quiet_option(parser)
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Run the command."""
    from moses_integration.rescoring.minimum_bayes_risk import combine

    require_writable(args.output, inputs=[*args.lists, args.source, args.ini])
    require_one_standard_input(*args.lists, args.source)
    if (args.ini is None) != args.prepared:
        raise UsageError(
            f"give either {arg_name('ini')}, which determines how the text is prepared, or {arg_name('prepared')} "
            "for prepared text"
        )
    reporter, weights = Reporter(quiet=args.quiet), _weights(args)
    if args.prepared:
        text, source = None, [*read_lines(args.source)]
    else:
        ini = system_options.read_ini(args.ini, reporter, outputs=[args.output])
        text = text_of(ini, f"give {arg_name('prepared')} in place of {arg_name('ini')}")
        with work_folder(None) as folder:
            text.prepare("source", args.source, folder / "source", reporter.log, processes=1)
            source = [*read_lines(folder / "source")]
    posteriors = [_posterior(path, source, args.perplexity, reporter) for path in args.lists]
    with reporter.task("combining") as task:
        translations: list[bytes] = []
        for translation in combine(posteriors, weights, len(source)):
            translations.append(translation)
            task.count(len(translations), len(source))
    write_lines(args.output, translations if text is None else text.settings.detokenise(translations))
    return 0


def _posterior(path: Path, source: Sequence[bytes], perplexity: float, reporter: Reporter) -> Posterior:
    from moses_integration.rescoring.minimum_bayes_risk import Posterior
    from moses_integration.rescoring.reranking import check_sentences

    name = display_name(path)
    entries = [replace(entry, words=strip_tags(entry.words)) for entry in read_nbest(path)]
    try:
        check_sentences(entries, source)
        posterior = Posterior.of_list(entries, perplexity)
    except ListFault as fault:
        raise UserError(f"{name}: {fault.reason}") from fault
    of = f"{counted(len(entries), 'translation')} of {counted(len(posterior.probs), 'sentence')}"
    if posterior.scale or perplexity == 1:
        reporter.log(f"{name}: {of}, scale {posterior.scale:.4g}")
    else:
        reporter.log(
            f"{name}: {of}, which have equal probabilities, for the list is too short for perplexity {perplexity:g}; "
            f"give a longer list, or a smaller {arg_name('perplexity')}"
        )
    return posterior


def _weights(args: argparse.Namespace) -> list[float]:
    if args.weights is None:
        return [1.0] * len(args.lists)
    if len(args.weights) != len(args.lists):
        raise UsageError(
            f"{arg_name('weights')}: has {counted(len(args.weights), 'weight')} for {counted(len(args.lists), 'list')};"
            " give each list one"
        )
    if not any(args.weights):
        raise UsageError(f"{arg_name('weights')}: are all 0; give at least one list more")
    weights: list[float] = args.weights
    return weights


def _at_least(text: str, least: float) -> float:
    number = parse_number(text)
    if number < least:
        raise argparse.ArgumentTypeError(f"{text} is not a number of at least {least}")
    return number
