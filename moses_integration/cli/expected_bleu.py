"""`phrasescore-smt expected-bleu`: train a phrase-pair model on n-best lists of the training text."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from moses_integration.building.aligned_corpus import Corpus
from moses_integration.building.system import has_start_weights
from moses_integration.cli import system_options
from moses_integration.ini import MosesIni
from moses_integration.prepared_text import work_folder
from phrasescore.cli import options
from phrasescore.cli.console import Reporter
from phrasescore.cli.parser import Subparsers
from phrasescore.errors import UsageError, UserError, arg_name
from phrasescore.files import make_folder, real_path, require_rereadable
from phrasescore.model_files import described

if TYPE_CHECKING:
    from moses_integration.expected_bleu.fitting import Trained

_TEXTS = ("source", "target", "alignment")
_FEWEST = 10
"""`expected_bleu.fitting.FEWEST`, without the time of its import."""


def add_parser(subparsers: Subparsers) -> None:
    parser = subparsers.add_parser(
        "expected-bleu",
        help="train a phrase-pair model for expected BLEU (+XBLEU)",
        description="Split the training text into two folds. Decode each fold with a system built from the other. Then "
        "train a log-linear model of phrase pairs that raises the expected BLEU of these n-best lists.",
        examples=(
            "phrasescore-smt expected-bleu system/tuned.ini -o xbleu",
            "phrasescore annotate system/phrase-table.gz -m xbleu -o phrase-table.xbleu.gz",
        ),
    )
    system_options.add_ini(parser, "tuned moses.ini, before add-column and add-lm")
    options.add_path(parser, "-o --output", "FOLDER", "model folder to write", required=True)
    group = parser.add_argument_group("training text", "default: the text in corpus/ of a system of `build`")
    options.add_path(group, "--source", "TEXT", "source sentences, prepared for the system")
    options.add_path(group, "--target", "TEXT", "their translations")
    options.add_path(group, "--alignment", "FILE", "their word alignment, 0-0 1-2 ...")
    group = parser.add_argument_group("n-best lists")
    text = "sentences to decode, sampled from both folds"
    options.add_number(group, "--sentences", text, default=30_000, least=_FEWEST)
    options.add_number(group, "--seed", "seed of the sampling", default=1, least=0)
    options.add_path(parser, "--work", "FOLDER", "keep the systems of the folds in this folder")
    options.add_processes_option(parser)
    options.add_quiet_option(parser)
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    from moses_integration.decoder.declaration import declare_model
    from moses_integration.decoder.settings import read_settings
    from moses_integration.expected_bleu.fitting import train
    from moses_integration.expected_bleu.nbest_lists import (
        build_folds,
        decode_folds,
        join,
        require_rebuildable,
        training_corpus,
    )
    from phrasescore.scoring.phrase_pair_model import save_phrase_pair_model

    _check_usage(args)
    given = _given_text(args)
    reporter = Reporter(quiet=args.quiet)
    ini = system_options.read_ini(args.ini, reporter)
    require_rebuildable(ini)
    ini.require_some_weight()
    # Fail now, not after the folds have been built.
    read_settings(ini)
    corpus = given or training_corpus(ini)
    make_folder(args.output)
    if has_start_weights(ini):
        reporter.log(f"{ini.name}: has untuned weights; tune it first, for better n-best lists")
    with work_folder(args.work) as folder:
        folds = build_folds(ini, corpus, folder, args.processes, reporter.log)
        with reporter.task("decoding") as task:
            lists = join(decode_folds(folds, args.sentences, args.seed, args.processes, task.count))
    trained = train(lists, declare_model(ini).weights_F, args.seed, reporter.log)
    texts = {**corpus._asdict(), "ini": args.ini}
    facts = {"sentences": len(lists), "hypotheses": int(lists.offsets[-1]), "phrase_pairs": len(lists.pairs)}
    description = {
        "data": {name: described(path) for name, path in texts.items()},
        "training": {**facts, "seed": args.seed, **trained.description()},
    }
    save_phrase_pair_model(args.output, trained.model, description)
    _summarise(args, ini, trained, reporter)
    return 0


def _summarise(args: argparse.Namespace, ini: MosesIni, trained: Trained, reporter: Reporter) -> None:
    reporter.log(
        f"{args.output}: written, {len(trained.model.keys_F):,} features, l2 {trained.l2:g}; held-out expected BLEU "
        f"{trained.before.expected:.2f} -> {trained.after.expected:.2f}"
    )
    if not len(trained.model.keys_F):
        reporter.log(
            "training did not improve the held-out n-best lists, so the column will be 1 on every line and useless; "
            "more text may help"
        )
        return
    table = ini.path_of(ini.phrase_table())
    reporter.log(
        f"next: phrasescore annotate {table} -m {args.output} -o TABLE; phrasescore-smt add-column {args.ini} "
        f"--table TABLE --weight {trained.weight:.2g} -o INI; phrasescore-smt tune INI ..."
    )


def _check_usage(args: argparse.Namespace) -> None:
    if args.work is not None and real_path(args.work) == real_path(args.output):
        raise UsageError(f"{arg_name('work')}: is the folder of {arg_name('output')}, too; give another one")
    if args.output.exists() and (not args.output.is_dir() or any(args.output.iterdir())):
        raise UserError(f"{args.output}: exists already; give a new or empty folder")


def _given_text(args: argparse.Namespace) -> Corpus | None:
    """Return the training text given on the command line, None if there is none."""
    missing = [name for name in _TEXTS if getattr(args, name) is None]
    if len(missing) == len(_TEXTS):
        return None
    if missing:
        source, target, alignment = map(arg_name, _TEXTS)
        raise UsageError(
            f"{arg_name(missing[0])}: is missing; give {source}, {target} and {alignment}, or none of them"
        )
    corpus = Corpus(args.source, args.target, args.alignment)
    require_rereadable(*corpus, why="the training text is read several times")
    return corpus
