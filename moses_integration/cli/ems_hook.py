"""`phrasescore-smt ems-hook`: annotate the phrase table as a step of Moses' experiment manager (EMS).

EMS calls `custom-phrase-table-pruning` with two file names without `.gz`. It derives num-features from its own settings
alone, so the table must already have a fifth column, from `score-settings = "--PhraseCount"`; the score replaces
it (scripts/ems/experiment.meta, experiment.perl).
"""

from __future__ import annotations

import argparse
import shlex
import sys

from phrasescore.cli import main as phrasescore
from phrasescore.cli.options import add_path
from phrasescore.cli.parser import Subparsers
from phrasescore.model_files import CHECKPOINT, TRAINING_STATE, WEIGHTS

PHRASE_COUNT = "2.718"
"""The value that Moses' `consolidate --PhraseCount` writes in every line."""


def add_parser(subparsers: Subparsers) -> None:
    parser = subparsers.add_parser(
        "ems-hook",
        help="annotate the phrase table inside the experiment manager of Moses (EMS)",
        description="Replace the constant column of the phrase table by the score of a network, as a step of EMS. In "
        'the section [TRAINING], set score-settings = "--PhraseCount" and custom-phrase-table-pruning to this command '
        "without IN and OUT, which EMS appends (docs/ems.md).",
        examples=("phrasescore-smt ems-hook -m /path/rnn model/phrase-table.1 model/phrase-table.2",),
    )
    add_path(parser, "-m --model", "FOLDER", "model folder", required=True)
    text = "first train the network on this table, or resume its training, with these options of `phrasescore train`, "
    text += "which may be empty; write a single word as `--train=--epochs=5`"
    parser.add_argument("--train", type=_words, metavar="OPTIONS", help=text)
    text = "plugin of the network; may be given several times"
    # `run_with_plugins` ignores this name.
    add_path(parser, "--plugin", "FILE.py", text, action="append", default=[], dest="plugin_files")
    parser.add_argument("input", metavar="IN", help="phrase table, without .gz")
    parser.add_argument("output", metavar="OUT", help="phrase table to write, without .gz")
    parser.set_defaults(run=run)


def _words(text: str) -> list[str]:
    """Split options as a shell does."""
    try:
        return shlex.split(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(f"{text}: {str(error).lower()}") from error


def run(args: argparse.Namespace) -> int:
    try:
        code = _annotate(args)
    except SystemExit as end:
        # Invalid options of `phrasescore train`, or SIGTERM.
        code = end.code if isinstance(end.code, int) else 1
    if code:
        report_failure(code)
    return code


def report_failure(code: int | str) -> None:
    """Report a failure to EMS, which ignores the exit code and searches for these words.

    Source: check_if_crashed in experiment.perl.
    """
    print(f"phrasescore-smt ems-hook: failed with exit code {code}", file=sys.stderr)


def _annotate(args: argparse.Namespace) -> int:
    """Train the network if requested and not done yet, and annotate the table; return the exit code."""
    table, output = (f"{name.removesuffix('.gz')}.gz" for name in (args.input, args.output))
    # The commands load the plugins, so that `run` reports their errors to EMS.
    plugins = [word for path in args.plugin_files for word in ("--plugin", str(path))]
    # An interrupted training has weights, too; its checkpoint shows that it is unfinished and must be resumed.
    has_ready_network = (args.model / WEIGHTS).exists() and not (args.model / TRAINING_STATE / CHECKPOINT).exists()
    if args.train is not None and not has_ready_network:
        code = phrasescore(["train", table, "-o", str(args.model), "--quiet", *plugins, *args.train])
        if code:
            return code
        # The network is ready: without its checkpoint, other options or another table do not train it again.
        (args.model / TRAINING_STATE / CHECKPOINT).unlink()
    options = ["--replace-last", PHRASE_COUNT, "--quiet", *plugins]
    return phrasescore(["annotate", table, "-m", str(args.model), "-o", output, *options])
