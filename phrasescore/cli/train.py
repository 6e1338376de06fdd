"""`phrasescore train`: learn an encoder-decoder from a phrase table."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, Any

from phrasescore.cli.console import Reporter, stop_on_signals
from phrasescore.cli.options import (
    add_device_options,
    add_quiet_option,
    add_section_options,
    given_options,
    path_or_standard_stream,
)
from phrasescore.configuration import Section, check_values, read_toml
from phrasescore.nn.config import ModelConfig
from phrasescore.pairs import DataConfig
from phrasescore.training.config import BUDGET, TrainingConfig
from phrasescore.training.presets import DEFAULT_PRESET, PRESETS

if TYPE_CHECKING:
    from phrasescore.pairs import TableData
    from phrasescore.training.loop import Evaluation, Status, Trainer
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
    parser.add_argument("-o", "--output", type=Path, required=True, metavar="FOLDER", help="model folder")
    parser.add_argument(
        "--preset",
        choices=PRESETS,
        help="cho2014: the paper's settings; base: an hour on a GPU; small: 15 minutes on two CPU cores "
        f"(default: {DEFAULT_PRESET})",
    )
    parser.add_argument("--config", type=Path, metavar="FILE", help="settings in TOML")
    parser.add_argument(
        "--validation",
        type=Path,
        metavar="TABLE",
        help="phrase table from other sentences, to measure the loss on as well",
    )
    parser.add_argument("--restart", action="store_true", help="start over in a folder that holds a run")
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
    from phrasescore.training.loop import Watcher
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
        _introduce(reporter, trainer, table)
        with reporter.task("training") as task:
            trainer.watcher = Watcher(
                on_update=lambda status: task.update(status.spent, _status_line(status)),
                on_evaluation=lambda evaluation: reporter.say(_evaluation_line(evaluation)),
                should_stop=stop,
            )
            progress = trainer.train()
    if progress.finished is None:
        reporter.say(f"stopped after update {progress.update}; the same command resumes")
        return stop.exit_code
    reporter.say(
        f"done after update {progress.update}: {progress.finished}; the weights of update {progress.best_update} "
        f"are in {args.output}"
    )
    return 0


def _settings(args: argparse.Namespace) -> Settings:
    """Return the settings of a run: preset, then TOML file, then command line."""
    from phrasescore.training.run import Settings

    layers: list[tuple[str, dict[str, dict[str, Any]]]] = [("preset", PRESETS[args.preset or DEFAULT_PRESET])]
    if args.config:
        layers.append((str(args.config), read_toml(args.config, _SECTIONS)))
    layers.append(("command line", {name: given_options(args, kind) for name, kind in _SECTIONS.items()}))
    values: dict[str, dict[str, Any]] = {name: {} for name in _SECTIONS}
    for place, layer in layers:
        checked = {name: check_values(_SECTIONS[name], given, place) for name, given in layer.items()}
        if BUDGET & checked.get("training", {}).keys():
            # A budget replaces the one of the layer below, so that `--epochs 3` does not also mean 15 minutes.
            values["training"] = {key: value for key, value in values["training"].items() if key not in BUDGET}
        for name, given in checked.items():
            values[name] |= given
    return Settings(ModelConfig(**values["model"]), DataConfig(**values["data"]), TrainingConfig(**values["training"]))


def _introduce(reporter: Reporter, trainer: Trainer, table: TableData) -> None:
    facts = table.summary
    parameters = sum(p.numel() for p in trainer.network.parameters())
    reporter.say(
        f"{facts['lines']:,} lines, {facts['distinct_pairs']:,} distinct pairs; vocabularies of "
        f"{len(table.source_vocabulary):,} and {len(table.target_vocabulary):,} cover "
        f"{facts['source_coverage']:.2%} and {facts['target_coverage']:.2%} of the words"
    )
    reporter.say(f"network of {parameters:,} parameters on {trainer.device}")
    if trainer.progress.update:
        reporter.say(f"resuming after update {trainer.progress.update}")
    reporter.say(
        "losses are nats per pair: held-out pairs are random pairs of the same table, pieces of sentences it was "
        "made from, and show how well the table is fitted; --validation shows pairs of other sentences"
    )


def _status_line(status: Status) -> str:
    held_out = "" if status.held_out is None else f", held out {status.held_out:.3f}"
    return f"update {status.update:,}, {status.pairs_per_second:,.0f} pairs/s, loss {status.loss:.3f}{held_out}"


def _evaluation_line(evaluation: Evaluation) -> str:
    parts = [
        f"update {evaluation.update:,}, pass {evaluation.epoch:.2f}, {evaluation.seconds / 60:.1f} min, "
        f"{evaluation.pairs_per_second:,.0f} pairs/s: training {evaluation.training_loss:.3f}"
    ]
    for name, loss in (("held out", evaluation.held_out), ("validation", evaluation.validation)):
        if loss is not None:
            parts.append(f"{name} {loss.per_pair:.3f} per pair, {loss.per_word:.3f} per word")
    return ", ".join(parts) + (" *" if evaluation.best else "")
