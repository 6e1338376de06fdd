"""`phrasescore-smt tune`: find the weights with the best BLEU on a dev set (MERT)."""

from __future__ import annotations

import argparse
import hashlib
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Any

from moses_integration.cli.dev_set import add_dev_set_options, prepare_dev_set
from moses_integration.cli.in_context import add_in_context_option, placing
from moses_integration.cli.options import (
    Distinct,
    add_binarise_option,
    add_toolkit_options,
    natural,
    read_ini,
    say_spread,
    toolkit_of,
)
from moses_integration.cli.texts import add_text_options
from moses_integration.cli.work_folder import work_folder
from moses_integration.text_table.context_sections import networks_of
from moses_integration.tuning.tunings import TuningConfig
from phrasescore.cli.console import Reporter
from phrasescore.cli.options import add_quiet_option, add_section_options, given_options
from phrasescore.files import require_one_standard_input, require_writable

if TYPE_CHECKING:
    from moses_integration.ini import MosesIni
    from moses_integration.toolkits.toolkit import Toolkit
    from moses_integration.tuning.tunings import Tuning

REPORT_SCHEMA = 1


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the command."""
    parser = subparsers.add_parser(
        "tune",
        help="tune the weights on a dev set",
        description="Tune the weights by minimum error rate training (Och 2003). Several seeds show the variance; "
        "the ini gets the weights of the seed with the best dev BLEU, and is written after each seed.",
        most_used=("ini", "source", "reference", "output", "seeds", "prepared", "in_context", "work", "processes"),
        examples=(
            "phrasescore-smt tune system/moses.ini --source dev.en --reference dev.fr -o system/tuned.ini --seeds 1 "
            "2 3",
            "phrasescore-smt tune system/moses.ini --in-context ctx --source dev.en --reference dev.fr -o "
            "tuned.ctx.ini",
        ),
    )
    parser.add_argument("ini", type=Path, metavar="INI", help="moses.ini")
    add_dev_set_options(parser)
    parser.add_argument("-o", "--output", type=Path, required=True, metavar="INI", help="moses.ini to write")
    parser.add_argument(
        "--work",
        type=Path,
        metavar="FOLDER",
        help="keep prepared text, Moses' logs and lists, and a checkpoint from which the same command resumes (made "
        "after each decoding; with a real Moses after each seed)",
    )
    parser.add_argument(
        "--report", type=Path, metavar="FILE", help="write weights, BLEU, times and what they depend on as JSON"
    )
    tuning = add_section_options(parser, "tuning", TuningConfig)
    tuning.add_argument(
        "--seeds",
        type=natural,
        nargs="+",
        action=Distinct,
        default=[1],
        metavar="N",
        help="seeds of the random restarts, one tuning per seed (default: 1)",
    )
    add_text_options(parser)
    add_toolkit_options(parser)
    add_binarise_option(parser)
    add_in_context_option(parser, "add a column with the scores of this network, trained with `train --alignment`")
    add_quiet_option(parser)
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Run the command."""
    from moses_integration.ini import first_weight
    from moses_integration.toolkits.toolkit import TuningRequest
    from moses_integration.tuning.checkpoint import TuningCheckpoint
    from phrasescore.errors import naming
    from phrasescore.files import sha256_of, write_json
    from phrasescore.plugins import loaded_plugins
    from phrasescore.versions import versions

    require_one_standard_input(args.ini, args.source, *args.reference)
    require_writable(args.output, args.report, inputs=(args.ini, args.source, *args.reference))
    reporter = Reporter(quiet=args.quiet)
    toolkit: Toolkit = toolkit_of(args, reporter)
    ini = read_ini(args.ini, reporter, outputs=(args.output, args.report), networks=args.in_context)
    ini.require_some_weight()
    new_weight = first_weight(ini.weights_of_table(ini.phrase_table())) if args.in_context else None
    ini, toolkit = placing(args, ini, toolkit, reporter, new_weight, tunes=True)
    ini.require_effective_weights()
    ini.require_valid_at(args.output)
    settings = TuningConfig(**given_options(args, TuningConfig))
    settings_given = {**asdict(settings), "prepared": args.prepared, "binarise": args.binarise}
    report = {
        "schema": REPORT_SCHEMA,
        "toolkit": str(toolkit),
        **(_inputs(args, ini) | {"versions": versions()} if args.report else {}),
        "settings": settings_given,
    }
    started = time.monotonic()
    with work_folder(args.work) as folder:
        dev = prepare_dev_set(args, ini, folder, reporter.log)
        checkpoint = None
        if args.work:
            fingerprint = {
                "toolkit": str(toolkit),
                **_without_paths(_inputs(args, ini)),
                "prepared texts": [sha256_of(path) for path in (dev.source, *dev.references)],
                **{name.replace("_", "-"): value for name, value in settings_given.items()},
                "device": args.device,
                "precision": args.precision,
                "plugin": list(loaded_plugins().values()),
            }
            checkpoint = TuningCheckpoint(folder, fingerprint, restart=args.restart)
            if checkpoint.note:
                reporter.log(checkpoint.note)
        tunings: list[Tuning] = []
        with naming({dev.source: args.source}), reporter.task("tuning", at_most=True) as task:

            def tune(seeds: Sequence[int]) -> Iterator[Tuning]:
                request = TuningRequest(
                    dev.source, dev.references, seeds, settings, folder, reporter.log, task.update, checkpoint
                )
                return toolkit.tune(ini, request)

            for tuning in checkpoint.tunings(args.seeds, tune) if checkpoint else tune(args.seeds):
                # Write the best weights after each seed, because the run may be interrupted.
                tunings.append(tuning)
                best = max(tunings, key=lambda tuning: (tuning.bleu, -args.seeds.index(tuning.seed)))
                tuned = ini.copy()
                tuned.set_weights(best.weights)
                tuned.write(args.output)
                if args.report:
                    write_json(args.report, report | _result(tunings, time.monotonic() - started))
    say_spread(tunings, reporter)
    reporter.log(f"{args.output}: weights of seed {best.seed}, dev BLEU {best.bleu:.2f}")
    prepared = " --prepared" if args.prepared else ""
    reporter.log(f"next: phrasescore-smt decode {quote(str(args.output))}{prepared} < TEXT > TRANSLATIONS")
    return 0


def _result(tunings: Sequence[Tuning], seconds: float) -> dict[str, Any]:
    """Return the results for the report, over all seeds so far."""
    from moses_integration.tuning.tunings import spread

    mean, deviation = spread([tuning.bleu for tuning in tunings])
    return {
        "dev_bleu": {"mean": mean, "standard_deviation": deviation},
        "seconds": round(seconds, 1),
        "runs": [asdict(tuning) for tuning in tunings],
    }


def _inputs(args: argparse.Namespace, ini: MosesIni) -> dict[str, Any]:
    """Return the files that the weights depend on, with their hashes."""
    from phrasescore.provenance import described

    models = {
        one.label: {key: _described(ini.path_of(one, key)) for key in ("path", "backoff") if key in one.arguments}
        for one in ini.features()
    }
    return {
        "ini": described(args.ini),
        "models": {label: files for label, files in models.items() if files},
        "source": described(args.source),
        "references": [described(path) for path in args.reference],
        "networks": [described(Path(folder)) for folder in networks_of(ini)],
    }


def _without_paths(facts: Any) -> Any:
    """Remove the paths from descriptions of files, because only contents matter."""
    if isinstance(facts, list):
        return [_without_paths(one) for one in facts]
    if isinstance(facts, dict):
        # The `path` of a feature is itself a description.
        return {key: _without_paths(one) for key, one in facts.items() if key != "path" or isinstance(one, dict)}
    return facts


def _described(path: Path) -> dict[str, str | None]:
    """Return path and SHA-256 of the file of a feature; for several files, the SHA-256 of their hashes."""
    from moses_integration.ini import files_at
    from phrasescore.files import sha256_of
    from phrasescore.provenance import described

    found = described(path)
    if found["sha256"] is None:
        hashes = [sha256_of(file) for file in files_at(path)]
        found["sha256"] = hashes[0] if len(hashes) == 1 else hashlib.sha256("".join(hashes).encode()).hexdigest()
    return found
