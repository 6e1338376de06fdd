"""`phrasescore-smt estimate-gain`: estimate the BLEU gain of a column without tuning."""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Mapping
from dataclasses import asdict
from itertools import chain

from moses_integration.cli import system_options
from moses_integration.ini import MosesIni, Weights
from moses_integration.prepared_text import prepare_dev_set, work_folder
from moses_integration.tuning.tunings import warn_if_fixed
from phrasescore.cli import options
from phrasescore.cli.console import Reporter
from phrasescore.cli.parser import Subparsers
from phrasescore.errors import UserError, arg_name, reported_as
from phrasescore.files import write_json


def add_parser(subparsers: Subparsers) -> None:
    parser = subparsers.add_parser(
        "estimate-gain",
        help="estimate the BLEU gain of a column without tuning",
        description="Decode a dev set into n-best lists, and estimate the BLEU gain of features with weight 0: those "
        "that `add-column --weight 0` added to a tuned ini, or the column of --in-context. A gain below two standard "
        "errors is noise.",
        examples=(
            "phrasescore-smt add-column tuned.ini --table phrase-table.rnn.gz --weight 0 -o estimate.ini",
            "phrasescore-smt estimate-gain estimate.ini --source dev.en --reference dev.fr",
            "phrasescore-smt estimate-gain tuned.ini --source dev.en --reference dev.fr --in-context ctx",
        ),
    )
    system_options.add_ini(parser, "tuned moses.ini in which the new features have weight 0")
    system_options.add_dev_set_options(parser)
    options.add_number(parser, "--nbest", "size of an n-best list", default=100)
    options.add_path(parser, "--work", "FOLDER", "keep the prepared text and the n-best lists in this folder")
    options.add_path(parser, "--report", "FILE", "write the figures as JSON")
    system_options.add_prepared_option(parser)
    system_options.add_toolkit_options(parser)
    system_options.add_in_context_option(
        parser, "estimate the gain of the column of this network, trained with `train --alignment`"
    )
    options.add_quiet_option(parser)
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    from moses_integration.expected_bleu.gain import decode_candidates, estimate_gain
    from moses_integration.tuning.candidates import component_names

    reporter = Reporter(quiet=args.quiet)
    ini, toolkit, _ = system_options.open_system(args, reporter, [args.report], new_weight=0.0)
    warn_if_fixed(ini, reporter.log)
    weights = ini.weights_of_features()
    weight_of = dict(zip(component_names(weights), chain.from_iterable(weights.values()), strict=True))
    # Fail now, not after decoding.
    _new_features(weight_of, weight_of, ini)
    with work_folder(args.work) as folder:
        dev = prepare_dev_set(ini, args.source, args.reference, folder, args.prepared, reporter.log, args.processes)
        with reported_as({dev.source: args.source}), reporter.task("decoding") as task:
            candidates = decode_candidates(ini, dev, toolkit, folder, args.nbest, task.count)
    # The n-best lists contain tuned features only.
    new = _new_features(candidates.names, weight_of, ini)
    found = estimate_gain(candidates, [weight_of[name] for name in candidates.names])
    shown = ", ".join(_shown(name, weights) for name in new)
    verdict = "more than noise; tune with it" if found.is_certain else "not more than noise"
    reporter.show(
        f"expected BLEU of {found.sentences:,} n-best lists: {found.without:.2f} without {shown} (of weight 0), "
        f"{found.with_all:.2f} with: {found.gain:+z.2f}, standard error {found.standard_error:.2f}; {verdict}"
    )
    if args.report:
        write_json(args.report, {"features": new, "gain": found.gain, **asdict(found)})
    return 0


def _shown(name: str, weights: Weights) -> str:
    """Return the name of a component for messages; scores are counted from 1, as by `check`."""
    label, _, index = name.rpartition("_")
    return f"{label}, score {int(index) + 1}" if len(weights[label]) > 1 else label


def _new_features(names: Iterable[str], weight_of: Mapping[str, float], ini: MosesIni) -> list[str]:
    """Return the features of weight 0; raise a UserError if there are none."""
    new = [name for name in names if not weight_of[name]]
    if not new:
        raise UserError(
            f"{ini.name}: no tuned feature has weight 0, so there is no gain to estimate; add a column to a tuned ini "
            f"with {arg_name('weight', 0)}, or give {arg_name('in_context')}"
        )
    return new
