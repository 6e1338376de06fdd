"""`phrasescore lm train`: train a neural language model on a text."""

from __future__ import annotations

import argparse
from pathlib import Path
from shlex import quote

from phrasescore.cli.console import Reporter, stop_on_signals
from phrasescore.cli.options import (
    add_device_options,
    add_quiet_option,
    add_section_options,
    add_settings_help,
    path_or_standard_stream,
)
from phrasescore.cli.parser import CommandParser
from phrasescore.cli.training import (
    add_training_options,
    given_layers,
    run_trainer,
)
from phrasescore.files import require_one_standard_input
from phrasescore.lm.lm_settings import DEFAULT_PRESET, FOR_OTHERS, PRESETS, SECTIONS, LmSettings
from phrasescore.training.layers import check_nothing_is_held_out, read_presets
from phrasescore.training.torchrun import joined


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the command."""
    presets = read_presets(PRESETS)
    parser = subparsers.add_parser(
        "train",
        help="learn a language model from a text",
        description="Learn a feed-forward n-gram language model from a tokenised text, one sentence a line. The same "
        "command given again resumes a run that was stopped. Several processes that torchrun starts with it train one "
        "network, each on a GPU of its own. Settings come from the preset, then the TOML file (sections [model], "
        "[text], [training]), then the command line.",
        most_used=("text", "output", "preset", "validation", "max_minutes", "epochs", "seed", "device"),
        examples=("phrasescore lm train corpus/train.fr -o cslm --validation corpus/validation.fr",),
    )
    parser.add_argument(
        "text", type=path_or_standard_stream, metavar="TEXT", help="tokenised text, - for standard input"
    )
    parser.add_argument(
        "--preset",
        choices=presets,
        default=DEFAULT_PRESET,
        help="cho2014: the paper's settings; small: minutes on two CPU cores for a text of half a million words "
        "(default: %(default)s)",
    )
    parser.add_argument(
        "--validation",
        type=Path,
        metavar="TEXT",
        help="tokenised text to measure the perplexity on, which decides when to stop; without it some sentences of "
        "the training text are held out for that",
    )
    add_training_options(parser)
    add_device_options(parser)
    for name, section in SECTIONS.items():
        add_section_options(parser, name, section, presets)
    assert isinstance(parser, CommandParser)
    add_settings_help(parser, SECTIONS, presets, FOR_OTHERS)
    add_quiet_option(parser)
    parser.set_defaults(run=run, command="lm train")


def run(args: argparse.Namespace) -> int:
    """Run the command; return the exit code."""
    with joined() as ranks, stop_on_signals(may_repeat=ranks.number > 1) as stop:
        settings = settings_of(args)
        reporter = Reporter(quiet=args.quiet or not ranks.is_first)
        from phrasescore.device import choose_device, settle_memory
        from phrasescore.lm.lm_training import prepare
        from phrasescore.training.start import Start

        settle_memory()
        device = choose_device(ranks.device_name(args.device), args.precision)
        with stop.urgently():
            trainer, facts = prepare(
                args.text,
                args.output,
                settings,
                device,
                args.validation,
                Start(args.restart, log=reporter.log, ranks=ranks),
            )
        penalty = settings.model.self_normalise
        reporter.log(
            f"{facts['lines']:,} lines, {facts['words']:,} words, {facts['coverage']:.2%} of them in the shortlist; "
            "losses are nats per word, ends of sentences included"
            + (f"; that of training has {penalty:g} (ln Z)^2 in it" if penalty else "")
        )
        next_command = f"phrasescore-smt add-lm moses.ini --model {quote(str(args.output))} -o moses.cslm.ini"
        return run_trainer(trainer, reporter, stop, restarted=args.restart, next_command=next_command)


def settings_of(args: argparse.Namespace) -> LmSettings:
    """Return the settings of a run: preset, TOML file, command line.

    Raises:
        UserError: a key or a value is invalid, or options are incompatible.
    """
    require_one_standard_input(args.text, args.validation)
    settings = LmSettings.of(args.preset, given_layers(args, SECTIONS))
    if args.validation is not None:
        check_nothing_is_held_out(settings.given, "--validation")
    return settings
