"""`phrasescore train`: train an encoder-decoder on a phrase table or on sentences."""

from __future__ import annotations

import argparse
from functools import partial
from shlex import quote

from phrasescore.cli.options import add_path, path_or_standard_stream
from phrasescore.cli.parser import Subparsers
from phrasescore.cli.training import add_training_options, given_layers, run_training
from phrasescore.errors import UsageError, arg_name
from phrasescore.files import STANDARD_STREAM, require_one_standard_input
from phrasescore.parallel_text import ParallelText
from phrasescore.training.settings import PRESETS, SECTIONS, LearnsFrom, Settings, read_presets


def add_parser(subparsers: Subparsers) -> None:
    presets = read_presets(PRESETS)
    parser = subparsers.add_parser(
        "train",
        help="learn an encoder-decoder from a phrase table or from sentences",
        description="Learn an encoder-decoder from the phrase pairs of a Moses phrase table, or from parallel text. "
        "The same command resumes an interrupted run. With torchrun, several processes train one network.",
        most_used=(
            *("table", "output", "preset", "validation", "source", "target", "alignment"),
            *("max_updates", "max_minutes", "hidden", "dropout", "seed", "device"),
        ),
        examples=(
            "phrasescore train phrase-table.gz -o rnn --max-minutes 60",
            "phrasescore train --source train.en --target train.fr --alignment train.align -o ctx",
            "phrasescore train --source train.en --target train.fr -o translator",
        ),
    )
    text = "phrase table, - for standard input; or give --source"
    add_path(parser, "table", "TABLE", text, type=path_or_standard_stream, nargs="?")
    defaults = "small; for sentences attention; with --alignment context"
    parser.add_argument("--preset", choices=presets, help=f"settings to start from (default: {defaults})")
    text = "phrase table from other sentences, whose loss selects the weights and can end the training"
    add_path(parser, "--validation", "TABLE", text)
    group = parser.add_argument_group("parallel text, instead of a table")
    for name, metavar, meaning in (
        ("--source", "TEXT", "source sentences, one a line, tokenised"),
        ("--target", "TEXT", "their translations"),
        ("--alignment", "POINTS", "their word alignment, in the Pharaoh format, for a network of phrases in context"),
        (
            "--validation-source",
            "TEXT",
            "other source sentences, whose loss selects the weights and can end the training",
        ),
        ("--validation-target", "TEXT", "their translations"),
        ("--validation-alignment", "POINTS", "their word alignment"),
    ):
        add_path(group, name, metavar, meaning)
    add_training_options(parser, SECTIONS, presets)
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    settings = settings_of(args)
    # Imported late: PyTorch takes seconds to import, and usage errors should not wait for it.
    from phrasescore.training.run import prepare

    data, validation = args.table, args.validation
    if args.source is not None:
        data = ParallelText(args.source, args.target, args.alignment)
    if args.validation_source is not None:
        validation = ParallelText(args.validation_source, args.validation_target, args.validation_alignment)
    reading = partial(prepare, data, args.output, settings, validation=validation)
    return run_training(args, reading, _next_command(args))


def _next_command(args: argparse.Namespace) -> str:
    """Return the command that uses the trained network."""
    folder = quote(str(args.output))
    if args.alignment is not None:
        return f"phrasescore-smt tune moses.ini --in-context {folder} --source DEV --reference REFERENCE -o tuned.ini"
    if args.source is not None:
        return f"phrasescore translate -m {folder} < TEXT"
    table = "TABLE" if args.table == STANDARD_STREAM else quote(str(args.table))
    return f"phrasescore annotate {table} -m {folder} -o phrase-table.rnn.gz"


def _check_usage(args: argparse.Namespace) -> None:
    """Check that either a table or a text is given, with matching options."""
    if (args.table is None) == (args.source is None):
        raise UsageError(f"give either a phrase table or {arg_name('source')} and {arg_name('target')}")
    pairs = [("source", "target"), ("validation_source", "validation_target")]
    if args.alignment is not None:
        pairs.append(("validation_source", "validation_alignment"))
    for one, other in pairs:
        if (getattr(args, one) is None) != (getattr(args, other) is None):
            raise UsageError(f"{arg_name(one)} and {arg_name(other)}: belong together; give both or neither")
    if args.source is not None and args.validation is not None:
        raise UsageError(f"{arg_name('validation')}: is a phrase table; for text give {arg_name('validation_source')}")
    for name in ("alignment", "validation_source"):
        if args.source is None and getattr(args, name) is not None:
            raise UsageError(f"{arg_name(name)}: is for parallel text; leave it out or give {arg_name('source')}")
    if args.alignment is None and args.validation_alignment is not None:
        raise UsageError(
            f"{arg_name('validation_alignment')}: needs {arg_name('alignment')}, too; give both or neither"
        )


def settings_of(args: argparse.Namespace) -> Settings:
    """Return the settings of a run: preset, TOML file, command line."""
    _check_usage(args)
    kind: LearnsFrom = "table" if args.source is None else "sentences" if args.alignment is None else "aligned"
    settings = Settings.of(kind, args.preset, given_layers(args, SECTIONS))
    texts = ("source", "target", "alignment")
    inputs = ("table", *texts, "validation", *(f"validation_{name}" for name in texts))
    corpora = settings.data.source_corpus, settings.data.target_corpus
    require_one_standard_input(*(getattr(args, name) for name in inputs), *corpora)
    return settings
