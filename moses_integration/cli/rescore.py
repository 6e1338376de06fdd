"""`phrasescore-smt rescore`: add features to n-best lists, and rerank them."""

from __future__ import annotations

import argparse
import time
from collections import Counter
from collections.abc import Container, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from moses_integration.cli.dev_set import prepare_dev_set
from moses_integration.cli.options import Distinct, natural, read_ini, say_spread
from moses_integration.cli.texts import add_text_options, prepare_text
from moses_integration.cli.work_folder import work_folder
from moses_integration.rescoring.features import FeatureSpec, needs_backoff
from moses_integration.text_table.position_tags import strip_tags
from moses_integration.tuning.tunings import WeightSearch
from phrasescore.cli.console import Reporter
from phrasescore.cli.options import (
    add_device_options,
    add_plugin_option,
    add_quiet_option,
    add_section_options,
    add_sharing_options,
    given_options,
    path_or_standard_stream,
    refuse_idle,
)
from phrasescore.errors import UsageError, UserError
from phrasescore.files import display_name, require_one_standard_input, require_writable
from phrasescore.model_files import files_of_models

if TYPE_CHECKING:
    from moses_integration.building.system_text import SystemText
    from moses_integration.ini import MosesIni, Weights
    from moses_integration.nbest import NbestEntry
    from moses_integration.rescoring.features import ListFeature
    from moses_integration.rescoring.tuned_weights import TunedWeights
    from moses_integration.tuning.candidates import Candidates
    from moses_integration.tuning.tunings import Tuning
    from phrasescore.device import Device

_SEEDS = [1, 2, 3]
_NO_LANGUAGE_MODEL = "without a neural language model"


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the command."""
    parser = subparsers.add_parser(
        "rescore",
        help="rescore n-best lists with networks",
        description="Add features to the n-best lists of any toolkit. With --reference, tune the weights of all "
        "features on the lists of a dev set and write them. With --weights, add the same features to the lists of "
        "another text and write the best translation of each sentence.",
        most_used=("nbest", "source", "output", "reference", "weights", "ini", "scorers", "prepared"),
        examples=(
            "phrasescore-smt rescore --nbest dev.nbest --source dev.en --reference dev.fr --ini tuned.ini --scorer "
            "CSLM=cslm -o weights.json",
            "phrasescore-smt rescore --nbest test.nbest --source test.en --weights weights.json -o test.out",
        ),
    )
    parser.add_argument("--nbest", type=Path, required=True, metavar="FILE", help="n-best lists")
    parser.add_argument("--source", type=Path, required=True, metavar="TEXT", help="source sentences of the lists")
    parser.add_argument(
        "-o",
        "--output",
        type=path_or_standard_stream,
        required=True,
        metavar="FILE",
        help="file to write: with --reference the weights, as JSON; with --weights the translations",
    )
    parser.add_argument(
        "--nbest-output",
        type=Path,
        metavar="FILE",
        help="write the reranked lists with the new features and totals, too",
    )
    mode = parser.add_mutually_exclusive_group(required=True)
    mode.add_argument(
        "--reference",
        type=Path,
        nargs="+",
        action="extend",
        metavar="TEXT",
        help="tune: reference translations; several files are several references",
    )
    mode.add_argument("--weights", type=Path, metavar="FILE", help="apply: weights that `rescore --reference` wrote")
    parser.add_argument(
        "--ini",
        type=Path,
        metavar="INI",
        help="moses.ini of the lists: initial weights, and the preparation of the text; without it (another toolkit), "
        "give --prepared, and weights start from 1; with --weights only needed if the ini was moved",
    )
    parser.add_argument(
        "--scorer",
        type=_scorer,
        action="append",
        default=[],
        dest="scorers",
        metavar="LABEL=[COLUMN:]PATH",
        help="feature to add, such as RNN=rnn/ or WP=unknown-target:rnn/; may be given several times, with "
        "--weights only if a folder was moved. PATH is a model folder, or a file with one number per list entry. "
        "Networks for phrases score the segmentation, which the lists must have; networks for sentences and "
        "language models score the sentence. COLUMN is score (default), per-word, unknown-target, unknown-source or "
        "unknown-both for an encoder-decoder; score, unnormalised or unknown-target for a language model",
    )
    parser.add_argument(
        "--backoff",
        type=Path,
        metavar="LM",
        help="n-gram model, ARPA or KenLM binary, for the words outside the shortlist of a language model (default: "
        "that of the first KENLM feature of the ini; with --weights that of tuning)",
    )
    tuning = add_section_options(parser, "tuning", WeightSearch)
    tuning.add_argument(
        "--seeds",
        type=natural,
        nargs="+",
        action=Distinct,
        metavar="N",
        help="seeds of the random restarts (default: 1 2 3)",
    )
    add_sharing_options(parser.add_argument_group("sharing the work"))
    add_text_options(parser)
    add_device_options(parser)
    add_plugin_option(parser)
    add_quiet_option(parser)
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Run the command: tune with --reference, rescore with --weights."""
    numbers = [choice.path for choice in args.scorers]
    inputs = (args.source, *(args.reference or ()), args.ini, args.weights, args.backoff, *numbers)
    # --nbest-output may replace the input list.
    require_writable(args.output, args.nbest_output, inputs=(*inputs, *files_of_models(numbers)))
    require_writable(args.output, inputs=[args.nbest])
    require_one_standard_input(args.nbest, args.source, *(args.reference or ()))
    twice = [label for label, count in Counter(choice.label for choice in args.scorers).items() if count > 1]
    if twice:
        raise UsageError(f"--scorer {twice[0]}=: is given twice; give each scorer a label of its own")
    if args.weights:
        refuse_idle(args, ["seeds", "restarts"], "with --weights, which are tuned")
    reporter = Reporter(quiet=args.quiet)
    from moses_integration.nbest import ListFault

    try:
        (_apply if args.weights else _tune)(args, reporter)
    except ListFault as fault:
        raise UserError(f"{display_name(args.nbest)}: {fault.reason}") from fault
    return 0


def _tune(args: argparse.Namespace, reporter: Reporter) -> None:
    from moses_integration.nbest import ListFault, write_nbest
    from moses_integration.rescoring.features import load_features, share_scoring
    from moses_integration.rescoring.reranking import rerank, starting_weights
    from moses_integration.rescoring.tuned_weights import TunedWeights
    from moses_integration.tuning.candidates import from_nbest
    from phrasescore.files import sha256_of
    from phrasescore.versions import versions

    if args.ini is None and not args.prepared:
        raise UsageError(
            "--reference: the moses.ini that the list was decoded with says how its text is prepared; give --ini, or "
            "prepared text and --prepared"
        )
    ini = read_ini(args.ini, reporter, outputs=(args.output, args.nbest_output)) if args.ini else None
    with work_folder(None) as folder:
        dev = prepare_dev_set(args, ini, folder, reporter.log)
    source = list(map(strip_tags, dev.sentences))
    entries = _read_list(args, source, [feature.label for feature in ini.features()] if ini else (), reporter)
    if not entries:
        raise ListFault("is empty; check what the decoder reported")
    start = _weights_of_list(args, ini, entries[0])
    backoff = _backoff(args, ini)
    device = _device(args, args.scorers)
    # Hash the inputs before writing, because the new list may replace the old one.
    inputs = _inputs(args)
    with share_scoring(len(entries), device, args.processes, args.scheduler) as workers:
        features = load_features(args.scorers, device, backoff, workers)
        entries, seconds = _scored_list(entries, features, source, reporter)
    digests = {feature.label: feature.fingerprint for feature in features}
    start = starting_weights(entries[0], start, list(digests))
    best, found = _find_weights(args, from_nbest(entries, dev.translations), start, reporter)
    if args.nbest_output:
        write_nbest(args.nbest_output, rerank(entries, best.weights))
    backoff_digest = sha256_of(backoff) if backoff else None
    tuned = TunedWeights(args.output, args.ini, backoff, backoff_digest, args.scorers, digests, best.weights)
    tuned.write(
        {
            **inputs,
            "entries": len(entries),
            "computing": {"device": str(device.torch_device), "precision": device.precision},
            "versions": versions(),
            **found,
            "seconds": seconds | found["seconds"],
        }
    )
    reporter.log(f"{args.output}: weights of seed {best.seed}, dev BLEU {best.bleu:.2f}")


def _inputs(args: argparse.Namespace) -> dict[str, Any]:
    """Return the input files except models, with their hashes."""
    from phrasescore.provenance import described

    return {
        "list": described(args.nbest),
        "source": described(args.source),
        "references": [described(path) for path in args.reference],
    }


def _find_weights(
    args: argparse.Namespace, candidates: Candidates, start: Weights, reporter: Reporter
) -> tuple[Tuning, dict[str, Any]]:
    """Return the best tuning over all seeds, and the report on all of them."""
    from moses_integration.rescoring.reranking import list_bleu, oracle_bleu, tune_on_list
    from phrasescore.workers import available_cores

    before, oracle = list_bleu(candidates, start), oracle_bleu(candidates)
    origin = "the ini's weights" if args.ini else "weights of 1"
    reporter.log(f"dev BLEU {before:.2f} with {origin}; the best choice from the list has about {oracle:.2f}")
    started, processes = time.monotonic(), args.processes or available_cores()
    tunings = []
    seeds, search = args.seeds or _SEEDS, WeightSearch(**given_options(args, WeightSearch))
    for seed in seeds:
        tunings.append(tune_on_list(candidates, start, seed, restarts=search.restarts, processes=processes))
        reporter.log(f"seed {seed}: dev BLEU {tunings[-1].bleu:.2f}")
    seconds = round(time.monotonic() - started, 1)
    mean, deviation = say_spread(tunings, reporter)
    return max(tunings, key=lambda tuning: tuning.bleu), {
        "settings": {"seeds": seeds, **asdict(search), "prepared": args.prepared},
        "dev_bleu": {"before": before, "mean": mean, "standard_deviation": deviation, "oracle": oracle},
        "seconds": {"tuning": seconds},
        "runs": [{"seed": tuning.seed, "bleu": tuning.bleu, "weights": tuning.weights} for tuning in tunings],
    }


def _apply(args: argparse.Namespace, reporter: Reporter) -> None:
    from moses_integration.nbest import write_nbest
    from moses_integration.rescoring.features import load_features, share_scoring
    from moses_integration.rescoring.reranking import best_of, rerank
    from moses_integration.rescoring.tuned_weights import TunedWeights
    from phrasescore.files import write_lines

    tuned = TunedWeights.read(args.weights)
    choices = tuned.choices(args.scorers)
    models = files_of_models(choice.path for choice in choices)
    require_writable(args.output, args.nbest_output, inputs=models)
    source, text = _decoded_text(args, tuned, reporter)
    entries = _read_list(args, source, tuned.weights, reporter)
    if entries:
        tuned.require_list(entries[0])
    if tuned.backoff is None:
        refuse_idle(args, ["backoff"], _NO_LANGUAGE_MODEL)
    backoff = args.backoff or tuned.backoff
    device = _device(args, choices)
    with share_scoring(len(entries), device, args.processes, args.scheduler) as workers:
        features = load_features(choices, device, backoff, workers)
        tuned.require_same(choices, features, backoff)
        entries, _ = _scored_list(entries, features, source, reporter)
    ranked = rerank(entries, tuned.weights)
    lines = best_of(ranked, len(source))
    if text is not None:
        lines = list(text.detokenise(iter(lines)))
    if args.nbest_output:
        write_nbest(args.nbest_output, ranked)
    write_lines(args.output, lines)


def _decoded_text(
    args: argparse.Namespace, tuned: TunedWeights, reporter: Reporter
) -> tuple[list[bytes], SystemText | None]:
    """Return the sentences as they were decoded, without position tags, and the system's text processing.

    The text processing, which restores plain text, is None if translations are to remain tokenised.
    """
    from moses_integration.building.system_text import SystemText
    from phrasescore.text import text_lines

    if args.prepared:
        refuse_idle(args, ["ini"], "with --weights and --prepared, which leave nothing for it to say")
        return list(map(strip_tags, text_lines(args.source, reporter.log))), None
    path = args.ini or tuned.ini
    if path is None:
        raise UsageError(
            f"{args.weights}: was tuned on prepared text, without a moses.ini; give prepared text and --prepared"
        )
    ini = read_ini(path, reporter, outputs=(args.output, args.nbest_output))
    with work_folder(None) as folder:
        prepared = prepare_text(ini, "source", args.source, folder / "source", is_prepared=False, log=reporter.log)
        return list(text_lines(prepared)), SystemText.of(ini)


def _backoff(args: argparse.Namespace, ini: MosesIni | None) -> Path | None:
    """Return the n-gram model for neural language models: --backoff or else the ini's; None if no scorer needs it."""
    if not any(map(needs_backoff, args.scorers)):
        refuse_idle(args, ["backoff"], _NO_LANGUAGE_MODEL)
        return None
    given: Path | None = args.backoff
    if given is None and ini is None:
        raise UsageError("--scorer: a language model needs an n-gram model; give --backoff, or --ini for its own")
    return given or (ini.language_model() if ini else None)


def _device(args: argparse.Namespace, choices: Sequence[FeatureSpec]) -> Device:
    """Return the device and the precision of the scorers."""
    from phrasescore.device import choose_device, settle_memory

    settle_memory()
    precision = args.precision
    if precision == "auto" and any(map(needs_backoff, choices)):
        # The decoder uses fp32, too, so its n-best lists have the same scores.
        precision = "fp32"
    return choose_device(args.device, precision)


def _read_list(
    args: argparse.Namespace, source: Sequence[bytes], dense: Container[str], reporter: Reporter
) -> list[NbestEntry]:
    """Read an n-best list without position tags; reject sparse features.

    `dense` contains the labels of features that are known to be dense.
    """
    from moses_integration.nbest import read_nbest
    from moses_integration.rescoring.reranking import check_dense

    entries = [replace(entry, words=strip_tags(entry.words)) for entry in read_nbest(args.nbest)]
    reporter.log(f"{display_name(args.nbest)}: {len(entries):,} translations of {len(source):,} sentences")
    # Check before the slow scoring.
    check_dense(entries, dense)
    return entries


def _weights_of_list(args: argparse.Namespace, ini: MosesIni | None, entry: NbestEntry) -> Weights:
    """Return the ini's weights for the features of an entry; without an ini all are 1.

    The ini of another toolkit's list may have weights only, without feature lines.
    """
    from moses_integration.nbest import ListFault
    from moses_integration.rescoring.reranking import starting_weights

    if ini is None:
        return {label: [1.0] * len(values) for label, values in entry.features().items()}
    try:
        return starting_weights(entry, ini.weights() | ini.weights_of_features(), [])
    except ListFault as fault:
        problem = fault.reason.split(";")[0]
        raise UserError(
            f"{args.ini}: does not belong to {args.nbest}, which {problem}; give the ini that the list was decoded with"
        ) from fault


def _scored_list(
    entries: Sequence[NbestEntry], features: Sequence[ListFeature], source: Sequence[bytes], reporter: Reporter
) -> tuple[list[NbestEntry], dict[str, float]]:
    """Return the list with the new features, and the seconds that each took, by label."""
    from moses_integration.rescoring.features import ScorerFeature
    from moses_integration.rescoring.reranking import add_scores

    seconds: dict[str, float] = {}
    laps = [time.monotonic()]

    def report(feature: ListFeature) -> None:
        laps.append(time.monotonic())
        seconds[feature.label] = round(laps[-1] - laps[-2], 1)
        unknown, words = "", feature.found.words if isinstance(feature, ScorerFeature) else None
        if words is not None and words.target:
            # Unknown words show that the text was prepared differently from the network's training text.
            unknown = f", {words.target_unknown / words.target:.2%} of the target words are unknown to the network"
        reporter.log(f"{feature.label}: {seconds[feature.label]} s{unknown}")

    return add_scores(entries, source, features, report), seconds


def _scorer(text: str) -> FeatureSpec:
    """Parse LABEL=[COLUMN:]PATH."""
    try:
        return FeatureSpec.parse(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None
