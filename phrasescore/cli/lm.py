"""`phrasescore lm`: train a neural language model and score texts with it."""

from __future__ import annotations

import argparse
import sys
from functools import partial
from pathlib import Path
from shlex import quote
from typing import Any

from phrasescore.cli import options
from phrasescore.cli.console import Reporter
from phrasescore.cli.parser import Subparsers
from phrasescore.cli.training import add_training_options, given_layers, run_training
from phrasescore.errors import UsageError, arg_name
from phrasescore.files import (
    STANDARD_STREAM,
    display_name,
    real_path,
    require_one_standard_input,
    require_writable,
    write_json,
)
from phrasescore.lm.lm_settings import LM_DEFAULT_PRESET, LM_PRESETS, LM_SECTIONS, LmSettings
from phrasescore.model_files import files_of_models
from phrasescore.parallel_text import ParallelText
from phrasescore.text import text_lines
from phrasescore.training.settings import read_presets


def add_parser(subparsers: Subparsers) -> None:
    parser = subparsers.add_parser(
        "lm",
        help="train a neural language model, and score texts with it",
        description="The continuous-space language model (CSLM) that Cho et al. (2014) used beside their network.",
    )
    commands = parser.add_subparsers(metavar="COMMAND", required=True, prog=parser.prog)
    _add_train(commands)
    _add_score(commands)


def _add_train(subparsers: Subparsers) -> None:
    presets = read_presets(LM_PRESETS)
    parser = subparsers.add_parser(
        "train",
        help="train a language model on a text",
        description="Train a feed-forward n-gram language model on a tokenised text, one sentence a line. The same "
        "command resumes an interrupted run.",
        most_used=("text", "output", "preset", "validation", "max_minutes", "epochs", "seed", "device"),
        examples=("phrasescore lm train system/corpus/train.fr -o cslm --validation system/corpus/validation.fr",),
    )
    text = "tokenised text, - for standard input"
    options.add_path(parser, "text", "TEXT", text, type=options.path_or_standard_stream)
    text = "cho2014: the paper's settings; small: minutes on two CPU cores for a text of half a million words"
    text += " (default: %(default)s)"
    parser.add_argument("--preset", choices=presets, default=LM_DEFAULT_PRESET, help=text)
    text = "tokenised text whose perplexity selects the weights and can end the training (default: held-out sentences)"
    options.add_path(parser, "--validation", "TEXT", text)
    _add_source_options(parser, "--", "the text")
    _add_source_options(parser, "--validation-", "the validation text")
    add_training_options(parser, LM_SECTIONS, presets)
    parser.set_defaults(run=_train, command="lm train")


def _add_source_options(parser: argparse.ArgumentParser, prefix: str, of: str) -> None:
    """Add the options of the source of a text, which a joint model reads."""
    text = f"for a joint model: source sentences of {of}, tokenised"
    options.add_path(parser, f"{prefix}source", "TEXT", text)
    text = f"for a joint model: word alignment of the source and {of}, in the Pharaoh format"
    options.add_path(parser, f"{prefix}alignment", "POINTS", text)


def _with_source(args: argparse.Namespace, text: str, prefix: str = "") -> Path | ParallelText:
    """Return the text of an option, as parallel text if its source is given."""
    source, alignment = getattr(args, f"{prefix}source"), getattr(args, f"{prefix}alignment")
    if (source is None) != (alignment is None):
        given, missing = ("source", "alignment") if alignment is None else ("alignment", "source")
        raise UsageError(f"{arg_name(prefix + given)}: needs {arg_name(prefix + missing)}, too; give both or neither")
    target: Path = getattr(args, text)
    if source is None:
        return target
    if target is None:
        raise UsageError(f"{arg_name(prefix + 'source')}: needs {arg_name(text)}, too; give both or neither")
    return ParallelText(source, target, alignment)


def _add_score(subparsers: Subparsers) -> None:
    parser = subparsers.add_parser(
        "score",
        help="print ln p of each sentence of a text, or perplexities",
        description="Print ln p of each sentence of a tokenised text, a natural logarithm that includes the end of the "
        "sentence; or with --summary the perplexity of the text.",
        examples=(
            "phrasescore lm score test.fr -m cslm --backoff system/lm.fr.arpa",
            "phrasescore lm score test.fr -m cslm --backoff lm.arpa --weight-text dev.fr --summary",
        ),
    )
    options.add_input(parser, "text", "tokenised text")
    options.add_path(parser, "-m --model", "FOLDER", "model folder", required=True)
    options.add_backoff_option(parser, "none; each of these words then gets the whole probability of <unk>")
    text = "interpolate with the back-off model: weight of the network"
    parser.add_argument("--interpolate", type=float, metavar="W", help=text)
    options.add_path(parser, "--weight-text", "TEXT", "interpolate with the best weight for this other text")
    _add_source_options(parser, "--", "the text")
    options.add_switch(parser, "--summary", "print perplexities instead of scores")
    options.add_path(parser, "--report", "FILE", "write perplexities, models and checksums as JSON")
    options.add_device_options(parser)
    parser.set_defaults(run=_score, command="lm score")


def settings_of(args: argparse.Namespace) -> LmSettings:
    """Return the settings of a training run: preset, TOML file, command line."""
    sources = args.source, args.alignment, args.validation_source, args.validation_alignment
    require_one_standard_input(args.text, args.validation, *sources)
    return LmSettings.of(
        args.preset,
        given_layers(args, LM_SECTIONS),
        has_source=args.source is not None,
        has_validation=args.validation is not None,
    )


def _train(args: argparse.Namespace) -> int:
    """Run `lm train`; return the exit code."""
    settings = settings_of(args)
    text, validation = _with_source(args, "text"), _with_source(args, "validation", "validation_")
    if args.validation is not None and isinstance(text, ParallelText) != isinstance(validation, ParallelText):
        raise UsageError(
            f"{arg_name('validation')}: a joint model reads the source of both texts; give {arg_name('source')} and "
            f"{arg_name('validation_source')}, or neither"
        )
    # Imported late: PyTorch takes seconds to import, and usage errors should not wait for it.
    from phrasescore.lm.lm_training import prepare

    reading = partial(prepare, text, args.output, settings, validation=validation)
    next_command = f"phrasescore-smt add-lm moses.ini --model {quote(str(args.output))} -o moses.cslm.ini"
    return run_training(args, reading, next_command)


def _score(args: argparse.Namespace) -> int:
    """Run `lm score`; return the exit code."""
    text = _with_source(args, "text")
    inputs: tuple[Any, ...] = args.text, args.weight_text, args.source, args.alignment
    require_one_standard_input(*inputs)
    if args.weight_text is not None and real_path(args.text) == real_path(args.weight_text):
        raise UsageError(f"{args.weight_text}: is the text to be scored; take the weight from another text")
    inputs = *inputs, args.backoff, *files_of_models([args.model])
    require_writable(None if args.summary else STANDARD_STREAM, args.report, inputs=inputs)
    from phrasescore.lm.ngrams import read_rows
    from phrasescore.lm.text_scores import TextScores

    log = Reporter(quiet=False).log
    scores = TextScores.load(
        args.model,
        args.backoff,
        interpolate=args.interpolate,
        weight_text=args.weight_text,
        device=args.device,
        precision=args.precision,
        log=log,
    )
    for score in scores.score(read_rows(text, partial(text_lines, log=log), log), display_name(args.text)):
        if not args.summary:
            sys.stdout.write(f"{score:.9g}\n")
    if args.report:
        write_json(args.report, scores.report(args.model, text, args.backoff, args.weight_text))
    if args.summary:
        print(scores.summary(), end="")
    return 0
