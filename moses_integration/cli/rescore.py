"""`phrasescore-smt rescore`: add features to n-best lists, and rerank them."""

from __future__ import annotations

import argparse
from dataclasses import fields
from typing import TYPE_CHECKING

from moses_integration.cli import system_options
from moses_integration.nbest import ListFault
from moses_integration.prepared_text import prepare_dev_set, prepare_text, work_folder, write_translations
from moses_integration.rescoring.features import FeatureSpec
from moses_integration.tuning.tunings import warn_if_fixed, warn_if_noise
from phrasescore.cli import options
from phrasescore.cli.console import Reporter
from phrasescore.cli.parser import Subparsers
from phrasescore.errors import UsageError, UserError, arg_name
from phrasescore.files import display_name, read_lines, require_one_standard_input, require_writable, write_lines
from phrasescore.model_files import described, files_of_models

if TYPE_CHECKING:
    from moses_integration.rescoring.rescorer import Rescorer


def add_parser(subparsers: Subparsers) -> None:
    parser = subparsers.add_parser(
        "rescore",
        help="rescore n-best lists with networks",
        description="Add features to the n-best lists of any toolkit. With --reference, tune the weights of all "
        "features for the expected BLEU of the lists of a dev set (Rosti et al. 2011), and write them. With --weights, "
        "add the same features to the lists of another text and write the best translation of each sentence.",
        most_used=("nbest", "source", "output", "reference", "weights", "ini", "scorer", "prepared"),
        examples=(
            "phrasescore-smt rescore --nbest dev.nbest --source dev.en --reference dev.fr --ini tuned.ini --scorer "
            "CSLM=cslm -o weights.json",
            "phrasescore-smt rescore --nbest test.nbest --source test.en --weights weights.json -o test.out",
        ),
    )
    options.add_path(parser, "--nbest", "FILE", "n-best lists", required=True)
    options.add_path(parser, "--source", "TEXT", "source sentences of the lists", required=True)
    options.add_output(parser, "weights (JSON) with --reference, translations with --weights", required=True)
    options.add_path(parser, "--nbest-output", "FILE", "write the reranked lists with the new features, too")
    mode = parser.add_mutually_exclusive_group(required=True)
    system_options.add_reference_option(mode, "tune: reference translations", required=False)
    options.add_path(mode, "--weights", "FILE", "apply: weights that `rescore --reference` wrote")
    text = "moses.ini that the lists were decoded with: says how to prepare the text; without it, give --prepared"
    options.add_path(parser, "--ini", "INI", text)
    text = "feature to add, such as RNN=rnn or WP=unknown-target:rnn; PATH is a model folder, or a file with one "
    text += "number per list entry; COLUMN is a column of the model (docs/rescoring.md); may be given several times"
    form = "LABEL=[COLUMN:]PATH"
    parser.add_argument("--scorer", type=_scorer, action="append", default=[], metavar=form, help=text)
    options.add_backoff_option(parser, "that of the first KENLM feature of the ini; with --weights that of tuning")
    options.add_sharing_options(parser.add_argument_group("sharing the work"))
    system_options.add_prepared_option(parser)
    options.add_device_options(parser)
    options.add_plugin_option(parser)
    options.add_quiet_option(parser)
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Run the command: tune with --reference, rescore with --weights."""
    from moses_integration.rescoring.rescorer import Rescorer

    numbers = [spec.path for spec in args.scorer]
    inputs = (args.source, *(args.reference or ()), args.ini, args.weights, args.backoff, *numbers)
    # --nbest-output may replace the input list.
    require_writable(args.output, args.nbest_output, inputs=(*inputs, *files_of_models(numbers)))
    require_writable(args.output, inputs=[args.nbest])
    require_one_standard_input(args.nbest, args.source, *(args.reference or ()))
    labels = [spec.label for spec in args.scorer]
    for label in labels:
        if labels.count(label) > 1:
            raise UsageError(f"{arg_name('scorer')} {label}=: is given twice; give each scorer a label of its own")
    reporter = Reporter(quiet=args.quiet)
    given = {one.name: getattr(args, one.name) for one in fields(Rescorer) if one.name not in ("scorers", "log")}
    rescorer = Rescorer(**given, scorers=args.scorer, log=reporter.log)
    try:
        (_apply if args.weights else _tune)(args, rescorer, reporter)
    except ListFault as fault:
        raise UserError(f"{display_name(args.nbest)}: {fault.reason}") from fault
    return 0


def _tune(args: argparse.Namespace, rescorer: Rescorer, reporter: Reporter) -> None:
    if args.ini is None and not args.prepared:
        raise UsageError(
            f"{arg_name('reference')}: the moses.ini that the list was decoded with says how its text is prepared; "
            f"give {arg_name('ini')}, or prepared text and {arg_name('prepared')}"
        )
    ini = system_options.read_ini(args.ini, reporter, outputs=(args.output, args.nbest_output)) if args.ini else None
    if ini is not None:
        warn_if_fixed(ini, reporter.log)
    with work_folder(None) as folder:
        dev = prepare_dev_set(ini, args.source, args.reference, folder, args.prepared, reporter.log, args.processes)
    facts = {
        "source": described(args.source),
        "references": [described(path) for path in args.reference],
        "prepared": args.prepared,
    }
    warn_if_noise(rescorer.tune(args.output, dev, ini, facts).bleu, reporter.log)


def _apply(args: argparse.Namespace, rescorer: Rescorer, reporter: Reporter) -> None:
    from moses_integration.rescoring.rescorer import TunedWeights

    tuned = TunedWeights.read(args.weights)
    models = files_of_models(spec.path for spec in tuned.specs_with(args.scorer))
    require_writable(args.output, args.nbest_output, inputs=models)
    ini = None
    if args.prepared:
        options.reject_without_effect(args, ["ini"], f"with {arg_name('weights')} and {arg_name('prepared')}")
    elif path := args.ini or tuned.ini:
        ini = system_options.read_ini(path, reporter, outputs=(args.output, args.nbest_output))
    else:
        raise UsageError(
            f"{args.weights}: was tuned on prepared text, without a moses.ini; give prepared text and "
            f"{arg_name('prepared')}"
        )
    with work_folder(None) as folder:
        prepared = prepare_text(
            ini, "source", args.source, folder / "source", args.prepared, reporter.log, args.processes
        )
        translations = rescorer.apply(tuned, read_lines(prepared))
    if ini is None:
        write_lines(args.output, translations)
    else:
        write_translations(ini, args.output, translations)


def _scorer(text: str) -> FeatureSpec:
    """Parse LABEL=[COLUMN:]PATH."""
    try:
        return FeatureSpec.parse(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None
