"""`phrasescore-smt tune`: find the weights with the best BLEU on a dev set (MERT)."""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, replace
from functools import partial
from shlex import quote

from moses_integration.cli import system_options
from moses_integration.prepared_text import prepare_dev_set, work_folder
from moses_integration.tuning.tunings import Tuning, TuningConfig, log_spread, warn_if_fixed
from phrasescore.cli import options
from phrasescore.cli.console import Reporter
from phrasescore.cli.parser import Subparsers
from phrasescore.cli.section_options import add_section_options, given_options
from phrasescore.errors import UsageError, arg_name, reported_as
from phrasescore.files import is_stream


def add_parser(subparsers: Subparsers) -> None:
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
    system_options.add_ini(parser)
    system_options.add_dev_set_options(parser)
    system_options.add_ini_output(parser)
    text = "keep prepared text, logs, n-best lists, and a checkpoint from which the same command resumes"
    options.add_path(parser, "--work", "FOLDER", text)
    text = "write weights, BLEU, times, settings, versions and checksums as JSON"
    options.add_path(parser, "--report", "FILE", text)
    tuning = add_section_options(parser, "tuning", TuningConfig)
    text = "seeds of the random restarts, one tuning per seed (default: 1)"
    parse = partial(options.whole_number, least=0)
    tuning.add_argument("--seeds", type=parse, nargs="+", action="extend", metavar="N", help=text)
    system_options.add_prepared_option(parser)
    system_options.add_toolkit_options(parser)
    system_options.add_in_context_option(
        parser, "add a column with the scores of this network, trained with `train --alignment`"
    )
    options.add_quiet_option(parser)
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    from moses_integration.toolkits.toolkit import TuningRequest
    from moses_integration.tuning.checkpoint import TuningCheckpoint, tuning_fingerprint, tuning_inputs, write_report

    seeds: list[int] = args.seeds or [1]
    if repeated := [seed for seed in seeds if seeds.count(seed) > 1]:
        raise UsageError(f"{arg_name('seeds')}: {repeated[0]} is given twice")
    reporter = Reporter(quiet=args.quiet)
    ini, toolkit, column = system_options.open_system(args, reporter, (args.output, args.report), tunes=True)
    ini.require_effective_weights()
    warn_if_fixed(ini, reporter.log)
    ini.require_valid_at(args.output)
    config = TuningConfig(**given_options(args, TuningConfig))
    settings = {**asdict(config), "prepared": args.prepared}
    inputs = tuning_inputs(ini, args.source, args.reference) if args.report or args.work else {}
    report = {"toolkit": str(toolkit), **inputs, "settings": settings}
    started = time.monotonic()
    with work_folder(args.work) as folder:
        dev = prepare_dev_set(ini, args.source, args.reference, folder, args.prepared, reporter.log, args.processes)
        checkpoint = None
        if args.work:
            # The device and precision that `auto` chose, too.
            computing = column.scorer.run_fingerprint() if column else {}
            fingerprint = tuning_fingerprint(str(toolkit), inputs, settings, dev, computing)
            checkpoint = TuningCheckpoint(folder, fingerprint, restart=args.restart, log=reporter.log)
        tunings: list[Tuning] = []
        with reported_as({dev.source: args.source}), reporter.task("tuning", at_most=True) as task:
            request = TuningRequest(
                dev.source, dev.references, seeds, config, folder, reporter.log, task.update, checkpoint
            )

            def tune(left: Sequence[int]) -> Iterator[Tuning]:
                return toolkit.tune(ini, replace(request, seeds=left))

            for tuning in checkpoint.tunings(seeds, tune) if checkpoint else tune(seeds):
                tunings.append(tuning)
                best = max(tunings, key=lambda tuning: (tuning.bleu, -seeds.index(tuning.seed)))
                tuned = ini.copy()
                tuned.set_weights(best.weights)
                # Write the best weights after each seed, because the run may be interrupted; a stream has one ini only.
                is_last = len(tunings) == len(seeds)
                if is_last or not is_stream(args.output):
                    tuned.write(args.output)
                if args.report and (is_last or not is_stream(args.report)):
                    write_report(args.report, report, tunings, time.monotonic() - started)
    log_spread(tunings, reporter.log)
    reporter.log(f"{args.output}: weights of seed {best.seed}, dev BLEU {best.bleu:.2f}")
    prepared = " --prepared" if args.prepared else ""
    reporter.log(f"next: phrasescore-smt decode {quote(str(args.output))}{prepared} < TEXT > TRANSLATIONS")
    return 0
