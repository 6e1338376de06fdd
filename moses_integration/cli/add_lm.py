"""`phrasescore-smt add-lm`: add a neural language model as a feature of the embedded decoder."""

from __future__ import annotations

import argparse
from itertools import count

from moses_integration.cli import system_options
from moses_integration.ini import add_feature, first_weight
from moses_integration.per_text.context_sections import keep_option_weights, networks_of, with_column
from phrasescore.cli import options
from phrasescore.cli.console import Reporter
from phrasescore.cli.parser import Subparsers
from phrasescore.files import require_writable
from phrasescore.model_files import LANGUAGE_MODEL, read_description


def add_parser(subparsers: Subparsers) -> None:
    parser = subparsers.add_parser(
        "add-lm",
        help="write a moses.ini that uses a neural language model",
        description="Write a copy of a moses.ini with a model of `phrasescore lm train` as a feature of the embedded "
        "decoder: a language model (CSLM), or a joint model (NNJM), which also reads source words. Moses has no such "
        "feature; with Moses, `rescore` n-best lists with a language model. Tune the result.",
        examples=("phrasescore-smt add-lm system/tuned.ini --model cslm -o system/moses.cslm.ini",),
    )
    system_options.add_ini(parser)
    options.add_path(parser, "--model", "FOLDER", "model folder of `phrasescore lm train`", required=True)
    options.add_backoff_option(parser, "that of the first KENLM feature")
    system_options.add_weight_option(parser, "of the feature", "language model")
    system_options.add_ini_output(parser)
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    from moses_integration.decoder.cslm import NeuralLanguageModelFeature
    from moses_integration.decoder.declaration import declare_model

    require_writable(args.output, inputs=(args.ini, args.backoff))
    reporter = Reporter(quiet=False)
    ini = system_options.read_ini(args.ini, reporter, outputs=[args.output], networks=[args.model])
    backoff = args.backoff or ini.language_model()
    arguments = {"path": args.model, "backoff": backoff}
    others = ini.weights_of_features()
    kind = "NNJM" if "source_vocabulary" in read_description(args.model, LANGUAGE_MODEL) else "CSLM"
    label = next(name for name in (f"{kind}{number}" for number in count()) if name not in others)
    models = [weight for one in ini.features() if one.kind == "KENLM" for weight in others[one.label]]
    add_feature(ini, "CSLM", label, arguments, [first_weight(models) if args.weight is None else args.weight])
    if networks_of(ini):
        keep_option_weights(ini)
    # Only the embedded decoder supports neural language models, so it must support all other features.
    declare_model(with_column(ini))
    NeuralLanguageModelFeature(label, args.model, backoff).load()
    ini.require_valid_at(args.output)
    ini.write(args.output)
    reporter.log(f"{args.output}: written, with {args.model} as {label}, backed off by {backoff}")
    return 0
