"""`phrasescore train`: learn an encoder-decoder from a phrase table."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from phrasescore.cli.console import Reporter, stop_on_signals
from phrasescore.cli.options import (
    add_device_options,
    add_quiet_option,
    add_section_options,
    path_or_standard_stream,
)
from phrasescore.cli.training import add_training_options, read_settings, run_trainer
from phrasescore.configuration import Section
from phrasescore.nn.config import ModelConfig
from phrasescore.pairs import DataConfig
from phrasescore.training.config import TrainingConfig
from phrasescore.training.presets import DEFAULT_PRESET, PRESETS

if TYPE_CHECKING:
    from phrasescore.pairs import TableData
    from phrasescore.training.run import Settings

_SECTIONS: dict[str, type[Section]] = {"model": ModelConfig, "data": DataConfig, "training": TrainingConfig}


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the command."""
    parser = subparsers.add_parser(
        "train",
        help="learn an encoder-decoder from a phrase table",
        description="Learn an encoder-decoder from the phrase pairs of a Moses phrase table. The same command "
        "given again resumes a run that was stopped. Settings come from the preset, then the TOML file "
        "(sections [model], [data], [training], the keys are the option names with underscores), then the "
        "command line.",
    )
    parser.add_argument("table", type=path_or_standard_stream, help="phrase table, - for standard input")
    parser.add_argument(
        "--preset",
        choices=PRESETS,
        help="cho2014: the paper's settings; base: an hour on a GPU; small: 15 minutes on two CPU cores "
        f"(default: {DEFAULT_PRESET})",
    )
    parser.add_argument(
        "--validation",
        type=Path,
        metavar="TABLE",
        help="phrase table from other sentences; its loss then decides, not that of held-out pairs, which weights are "
        "kept and when to stop",
    )
    add_training_options(parser)
    add_device_options(parser)
    add_section_options(parser, "model", ModelConfig)
    add_section_options(parser, "data", DataConfig)
    add_section_options(parser, "training", TrainingConfig)
    add_quiet_option(parser)
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Train; return the exit code."""
    settings = _settings(args)
    reporter = Reporter(quiet=args.quiet)
    from phrasescore.device import choose_device, keep_freed_memory
    from phrasescore.training.run import prepare

    keep_freed_memory()
    device = choose_device(args.device, args.precision)
    with stop_on_signals() as stop:
        with reporter.task("reading") as task:

            def on_lines(lines: int, share: float | None) -> None:
                task.update(share, f"{lines:,} lines")
                if stop():
                    raise KeyboardInterrupt

            try:
                trainer, table = prepare(
                    args.table, args.output, settings, device, args.validation, args.restart, on_lines
                )
            except KeyboardInterrupt:
                return stop.exit_code
        _introduce(reporter, table)
        return run_trainer(trainer, reporter, stop)


def _settings(args: argparse.Namespace) -> Settings:
    """Return the settings of a run."""
    from phrasescore.training.run import Settings

    values = read_settings(args, _SECTIONS, PRESETS[args.preset or DEFAULT_PRESET])
    return Settings(ModelConfig(**values["model"]), DataConfig(**values["data"]), TrainingConfig(**values["training"]))


def _introduce(reporter: Reporter, table: TableData) -> None:
    facts = table.summary
    reporter.say(
        f"{facts['lines']:,} lines, {facts['distinct_pairs']:,} distinct pairs; vocabularies of "
        f"{len(table.source_vocabulary):,} and {len(table.target_vocabulary):,} cover "
        f"{facts['source_coverage']:.2%} and {facts['target_coverage']:.2%} of the words"
    )
    reporter.say(
        "losses are nats per pair: held-out pairs are random pairs of the same table, pieces of sentences it was "
        "made from, and show how well the table is fitted; --validation shows pairs of other sentences"
    )
