"""`phrasescore choice`: how well a table's columns choose among its options, on text that it has not seen."""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from phrasescore import __version__
from phrasescore.cli.console import Reporter
from phrasescore.cli.options import (
    add_device_options,
    add_plugin_option,
    add_quiet_option,
    path_or_standard_stream,
    positive,
)
from phrasescore.errors import UsageError
from phrasescore.files import (
    STANDARD_STREAM,
    display_name,
    require_one_standard_input,
    require_writable,
    sha256_of_input,
    write_json,
)

if TYPE_CHECKING:
    from phrasescore.choice.comparison import Row
    from phrasescore.choice.instances import Dev
    from phrasescore.choice.problem import ChoiceProblem
    from phrasescore.scoring.engine import Scorer

REPORT_SCHEMA = 1


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the command."""
    parser = subparsers.add_parser(
        "choice",
        help="say how well a table's columns choose among its options, on other text",
        description="Measure how well features choose among the table's own options of a source phrase, in sentences "
        "that the table was not made from: a log-linear model is fitted on half of the sources and tested on the "
        "other half, both ways. Without and with each further column, and each network, it prints the mean loss in "
        "nats a choice; the less, the better.",
    )
    parser.add_argument("table", type=path_or_standard_stream, help="phrase table, - for standard input")
    dev = parser.add_argument_group("what is chosen for; one of the first two")
    dev.add_argument(
        "--dev",
        nargs=2,
        type=Path,
        metavar=("SOURCE", "REFERENCE"),
        help="sentences and their translations, tokenised as the table is: right is each option that occurs in the "
        "translation",
    )
    dev.add_argument(
        "--dev-table",
        type=Path,
        metavar="TABLE",
        help="phrase pairs of other sentences, as `phrasescore-smt build --validation` writes them: right is the "
        "target, each pair counts as often as it occurred",
    )
    dev.add_argument(
        "--trace",
        type=Path,
        metavar="TEXT",
        help="translations of --dev with source ranges, as `phrasescore-decoder -t` and `moses -t` print them: only "
        "phrases count that the decoder used",
    )
    features = parser.add_argument_group("features")
    features.add_argument(
        "--base-columns",
        type=positive,
        default=4,
        metavar="N",
        help="columns that are not in question, the first ones; each further one is (default: %(default)s)",
    )
    features.add_argument(
        "--language-model",
        type=Path,
        metavar="LM",
        help="n-gram model of the target language, ARPA or KenLM binary, whose ln p of the phrase joins the base: a "
        "column is worth what it knows beside it",
    )
    features.add_argument(
        "-m",
        "--model",
        type=Path,
        action="append",
        default=[],
        dest="models",
        metavar="FOLDER",
        help="model folder, of either direction, judged as a further column; may be given several times",
    )
    add_plugin_option(parser)
    parser.add_argument("--report", type=Path, metavar="FILE", help="write the figures and their provenance as JSON")
    add_device_options(parser)
    add_quiet_option(parser, "show no progress, only the figures")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Measure; return the exit code."""
    if (args.dev is None) == (args.dev_table is None):
        raise UsageError("give either sentences to choose for by --dev, or phrase pairs by --dev-table")
    if args.trace is not None and args.dev is None:
        raise UsageError("--trace: is of the sentences of --dev; give them, or leave it out")
    require_one_standard_input(args.table)
    require_writable(STANDARD_STREAM, args.report)
    from phrasescore.choice.comparison import compare
    from phrasescore.choice.features import network_log_probs
    from phrasescore.choice.problem import ChoiceProblem

    reporter = Reporter(quiet=args.quiet)
    # What is wrong with a network is to be said before the table has been read.
    scorers = _load_scorers(args)
    digest = sha256_of_input(args.table) if args.report else None
    with reporter.task("reading") as task:
        problem = ChoiceProblem.read(
            args.table,
            _read_dev(args),
            args.base_columns,
            args.language_model,
            lambda lines, share: task.update(share, f"{lines:,} lines"),
        )
    problem.describe(reporter.say)
    options = problem.options
    columns = range(args.base_columns, options.columns_OC.shape[1])
    further = {f"column {column + 1}": options.columns_OC[:, column] for column in columns}
    further |= {name: network_log_probs(scorer, options) for name, scorer in scorers.items()}
    rows = compare(problem.base, further, options, problem.instances)
    if args.report:
        write_json(args.report, _make_report(args, digest, scorers, problem, rows))
    print("\n".join(_as_text(rows)))
    return 0


def _load_scorers(args: argparse.Namespace) -> dict[str, Scorer]:
    """Return the networks by the names of their columns.

    Raises:
        UserError: one cannot be used.
    """
    if not args.models:
        return {}
    from phrasescore.device import settle_memory
    from phrasescore.scoring.engine import Scorer

    settle_memory()
    return {str(folder): Scorer.load(folder, device=args.device, precision=args.precision) for folder in args.models}


def _read_dev(args: argparse.Namespace) -> Dev:
    from phrasescore.choice.instances import DevPairs, DevText
    from phrasescore.sentences import ParallelText

    return DevPairs.read(args.dev_table) if args.dev_table else DevText.read(ParallelText(*args.dev), args.trace)


def _as_text(rows: Sequence[Row]) -> list[str]:
    """Return the lines of a table: the loss, what it differs from the base by, and the weights of what is new."""
    base = rows[0]
    width = max(len(row.name) for row in rows)
    lines = [f"{'':{width}}  nats a choice  difference  standard error  weight"]
    for row in rows:
        line = f"{row.name:{width}}  {row.nats:13.4f}"
        if row.difference is not None:
            weights = [f"{weight:.3f}" for name, weight in row.weights.items() if name not in base.weights]
            line += f"  {row.difference.nats:+10.4f}  {row.difference.standard_error:14.4f}  {' '.join(weights)}"
        lines.append(line)
    return lines


def _make_report(
    args: argparse.Namespace,
    digest: str | None,
    scorers: Mapping[str, Scorer],
    problem: ChoiceProblem,
    rows: Sequence[Row],
) -> dict[str, Any]:
    """Return the figures and what they rest on; digests are those of files as they lie there."""
    import torch

    dev = {"dev": args.dev and args.dev[0], "reference": args.dev and args.dev[1], "dev_table": args.dev_table}
    return {
        "schema": REPORT_SCHEMA,
        "table": {"path": display_name(args.table), "sha256": digest, "base_columns": args.base_columns},
        **{
            name: path and {"path": str(path), "sha256": sha256_of_input(path)}
            for name, path in (*dev.items(), ("trace", args.trace), ("language_model", args.language_model))
        },
        "models": [
            {
                "folder": str(model.folder),
                "weights_sha256": model.weights_digest,
                "direction": model.direction,
                "device": str(scorer.device.torch_device),
                "precision": scorer.device.precision,
            }
            for scorer in scorers.values()
            for model in scorer.models
        ],
        "counts": {
            "sentences": problem.sentences,
            "sentences_with_choices": problem.sentences_with_choices,
            "sources": len(problem.options.sources),
            "options": len(problem.options.targets),
            "choices": len(problem.instances),
        },
        "results": [asdict(row) for row in rows],
        "versions": {"phrasescore": __version__, "torch": torch.__version__},
    }
