"""Common parts of the training commands: options, settings, progress, the end of a run."""

from __future__ import annotations

import argparse
import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from phrasescore.cli import options
from phrasescore.cli.console import Reporter
from phrasescore.cli.parser import CommandParser
from phrasescore.cli.section_options import add_section_options, add_settings_help, given_options
from phrasescore.configuration import Sections, Values, flags_of, parse_change, read_toml
from phrasescore.errors import UsageError, arg_name
from phrasescore.signals import StopRequest, stop_on_signals

if TYPE_CHECKING:
    from phrasescore.training.checkpoint import TrainingProgress
    from phrasescore.training.loop import Evaluation, Trainer


def add_training_options(parser: CommandParser, sections: Sections, presets: dict[str, Values]) -> None:
    """Add the options of all training commands; --help-all also lists the settings without a flag."""
    options.add_plugin_option(parser)
    options.add_path(parser, "-o --output", "FOLDER", "model folder", required=True)
    options.add_path(parser, "--config", "FILE", "settings in TOML")
    text = "change a setting, as in training.clip=0.5; may be given several times; --help-all lists all"
    parser.add_argument("--set", action="append", default=[], dest="changes", metavar="SECTION.KEY=VALUE", help=text)
    options.add_switch(parser, "--restart", "start over, and discard the network in the folder")
    options.add_device_options(parser, trains=True)
    for name, section in sections.items():
        if flags_of(section):
            add_section_options(parser, name, section, presets)
    add_settings_help(parser, sections, presets)
    options.add_quiet_option(parser)


def given_layers(args: argparse.Namespace, sections: Sections) -> list[Values]:
    """Return the settings of the user: the TOML file, then the command line."""
    given: Values = {name: given_options(args, kind) for name, kind in sections.items()}
    for change in args.changes:
        section, key, value = parse_change(change, sections)
        if key in given[section]:
            raise UsageError(f"--set {section}.{key}: is given twice; give it once")
        given[section][key] = value
    return [*([read_toml(args.config, sections)] if args.config else []), given]


def run_training(args: argparse.Namespace, prepare: Callable[..., Trainer[Any]], next_command: str) -> int:
    """Train, with other processes if `torchrun` started this one; return the exit code.

    Args:
        args: the command line.
        prepare: reads the data and returns the trainer, with `device` and `start` as keyword arguments.
        next_command: a command that uses the network, for the log.
    """
    from phrasescore.device import choose_device, configure_memory
    from phrasescore.training.loop import Start
    from phrasescore.training.ranks import joined

    with joined() as ranks, stop_on_signals(may_repeat=ranks.world_size > 1) as stop:
        reporter = Reporter(quiet=args.quiet or not ranks.is_first)
        configure_memory()
        device = choose_device(ranks.device_name(args.device), args.precision)
        with reporter.task("reading") as task, stop.urgently():
            trainer = prepare(device=device, start=Start(args.restart, task.update, reporter.log, ranks))
        return _train(trainer, reporter, stop, restarted=args.restart, next_command=next_command)


def _train(trainer: Trainer[Any], reporter: Reporter, stop: StopRequest, *, restarted: bool, next_command: str) -> int:
    from phrasescore.training.loop import Callbacks, is_overfitting

    unit = trainer.task.unit
    parameters = sum(p.numel() for p in trainer.network.parameters())
    reporter.log(f"network of {parameters:,} parameters on {trainer.device}")
    if trainer.progress.update:
        reporter.log(f"resuming after update {trainer.progress.update}")
    measured = "validation" if trainer.task.validation is not None else "held-out" if trainer.task.held_out else None
    if measured:
        reporter.log(
            "the training loss is the mean of the updates since the line before, with dropout; the weights with the "
            f"lowest {measured} loss are kept"
        )
    with reporter.task("training") as task:
        evaluations: list[Evaluation] = []

        def on_evaluation(evaluation: Evaluation) -> None:
            evaluations.append(evaluation)
            reporter.log(_evaluation_line(evaluation, unit))

        trainer.callbacks = Callbacks(
            on_update=lambda spent, progress: task.update(spent, _status_line(progress, unit, measured or "training")),
            on_evaluation=on_evaluation,
            should_stop=stop,
        )
        progress = trainer.train()
    if progress.finished is None:
        how = f"the same command without {arg_name('restart')} resumes it" if restarted else "the same command resumes"
        reporter.log(f"stopped after update {progress.update}; {how}")
        return stop.exit_code
    if is_overfitting(evaluations):
        reporter.log(
            f"the validation loss has risen while the training loss fell: the network overfits the {unit}s; more "
            f"{arg_name('dropout')}, or a smaller budget, may give better weights"
        )
    reporter.log(
        f"done after update {progress.update}: {progress.finished}; the weights of update {progress.best_update} "
        f"are in {trainer.folder.path}"
    )
    reporter.log(f"next: {next_command}")
    return 0


def _status_line(progress: TrainingProgress, unit: str, measured: str) -> str:
    best = "" if progress.best_loss is None else f", best {measured} loss {progress.best_loss:.3f}"
    speed = f"{progress.examples_per_second:,.0f} {unit}s/s"
    # The most important value comes first, because the terminal may truncate the line.
    return f"loss {_shown(progress.training_loss)}{best}, update {progress.update:,}, {speed}"


def _shown(loss: float) -> str:
    return "unknown" if math.isnan(loss) else f"{loss:.3f}"


def _evaluation_line(evaluation: Evaluation, unit: str) -> str:
    parts = [
        f"update {evaluation.update:,}, epoch {evaluation.epoch:.2f}, {evaluation.seconds / 60:.1f} min, "
        f"{evaluation.examples_per_second:,.0f} {unit}s/s: training loss {_shown(evaluation.training_loss)}"
    ]
    for name, loss in (("held-out", evaluation.held_out), ("validation", evaluation.validation)):
        if loss is not None:
            parts.append(f"{name} loss {loss}")
    if evaluation.held_out is None and evaluation.validation is None:
        # Without this note, users could take the training loss of a small text for a held-out loss.
        parts.append("nothing held out")
    return ", ".join(parts) + (", the best so far" if evaluation.best else "")
