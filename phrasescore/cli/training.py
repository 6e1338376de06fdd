"""Common parts of the training commands: merging settings, progress, the end of a run."""

from __future__ import annotations

import argparse
import math
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from phrasescore.cli.console import Reporter, StopRequest, duration, is_called
from phrasescore.cli.options import add_plugin_option, given_options
from phrasescore.errors import UsageError, spelled
from phrasescore.training.layers import Layer, Sections, parse_change, read_file

if TYPE_CHECKING:
    from phrasescore.training.loop import Evaluation, Status, Trainer
    from phrasescore.training.task import Task

    AnyTask = TypeVar("AnyTask", bound=Task)


# Names of the losses in messages.
_TRAINING, _HELD_OUT, _VALIDATION = "training", "held-out", "validation"
_RISEN = 0.05
"""Rise of the validation loss, relative to its fall, that indicates overfitting."""


def add_training_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of all training commands: model folder, settings, --restart, plugins."""
    add_plugin_option(parser)
    parser.add_argument("-o", "--output", type=Path, required=True, metavar="FOLDER", help="model folder")
    parser.add_argument("--config", type=Path, metavar="FILE", help="settings in TOML")
    parser.add_argument(
        "--set",
        action="append",
        default=[],
        dest="changes",
        metavar="SECTION.KEY=VALUE",
        help="change a setting, as in model.attention=concat; may be given several times; --help-all lists all",
    )
    parser.add_argument(
        "--restart",
        action="store_true",
        help="start over in a folder that holds a run; its network stays until the new one is first evaluated",
    )


def given_layers(args: argparse.Namespace, sections: Sections) -> list[Layer]:
    """Return the settings of the user: the TOML file, then the command line.

    Raises:
        UserError: a section, a key or a value is invalid, or a setting is given twice.
    """
    values: dict[str, dict[str, Any]] = {name: given_options(args, kind) for name, kind in sections.items()}
    names = {name: spelled(name) for given in values.values() for name in given}
    for change in args.changes:
        section, key, value = parse_change(change, sections)
        if key in values[section]:
            raise UsageError(f"--set {section}.{key}: is given twice; give it once")
        values[section][key] = value
        names[key] = key if is_called() else f"--set {section}.{key}"
    file = [read_file(args.config, sections)] if args.config else []
    return [*file, Layer("command line", values, names)]


def run_trainer(
    trainer: Trainer[AnyTask], reporter: Reporter, stop: StopRequest, *, restarted: bool, next_command: str
) -> int:
    """Train to the end or to a signal, log progress and the next command; return the exit code."""
    from phrasescore.training.forecast import seconds_left
    from phrasescore.training.loop import Watcher

    unit = trainer.task.unit
    parameters = sum(p.numel() for p in trainer.network.parameters())
    reporter.log(f"network of {parameters:,} parameters on {trainer.device}")
    if trainer.progress.update:
        reporter.log(f"resuming after update {trainer.progress.update}")
    measured = _measured(trainer)
    if measured != _TRAINING:
        reporter.log(
            "the training loss is that of the updates since the line before, with dropout; the weights of the lowest "
            f"{measured} loss are kept"
        )
    if seconds := seconds_left(trainer):
        reporter.log(f"training takes about {duration(seconds)}, if the loss falls for so long")
    with reporter.task("training") as task:
        evaluations: list[Evaluation] = []

        def on_evaluation(evaluation: Evaluation) -> None:
            evaluations.append(evaluation)
            reporter.log(_evaluation_line(evaluation, unit))

        trainer.watcher = Watcher(
            on_update=lambda status: task.update(status.spent, _status_line(status, unit, measured)),
            on_evaluation=on_evaluation,
            should_stop=stop,
        )
        progress = trainer.train()
    if progress.finished is None:
        how = "the same command without --restart resumes it" if restarted else "the same command resumes"
        reporter.log(f"stopped after update {progress.update}; {how}")
        return stop.exit_code
    if learns_by_heart(evaluations):
        reporter.log(
            f"the loss on other data has risen again while that on the {unit}s learnt from fell: the network has begun "
            "to learn them by heart; more --dropout, or a smaller budget, may give better weights"
        )
    reporter.log(
        f"done after update {progress.update}: {progress.finished}; the weights of update {progress.best_update} "
        f"are in {trainer.folder.path}"
    )
    reporter.log(f"next: {next_command}")
    return 0


def _measured(trainer: Trainer[AnyTask]) -> str:
    if trainer.task.validation is not None:
        return _VALIDATION
    return _HELD_OUT if len(trainer.task.held_out) else _TRAINING


def learns_by_heart(evaluations: Sequence[Evaluation]) -> bool:
    """Return whether training overfits: the validation loss has risen while the training loss fell.

    The threshold is relative to the total fall of the validation loss since the first evaluation. Held-out pairs of a
    table cannot show overfitting, because they come from the same sentences as the training pairs.
    """
    measured = [(one.validation.per_example, one.training_loss) for one in evaluations if one.validation is not None]
    if not measured:
        return False
    (first, _), (lowest, at_lowest), (last, at_last) = measured[0], min(measured), measured[-1]
    return last - lowest > _RISEN * (first - lowest) and at_last < at_lowest


def _status_line(status: Status, unit: str, measured: str) -> str:
    lowest = "" if status.lowest is None else f", best {measured} loss {status.lowest:.3f}"
    speed = f"{status.examples_per_second:,.0f} {unit}s/s"
    # The most important value comes first, because the terminal may truncate the line.
    return f"loss {_shown(status.loss)}{lowest}, update {status.update:,}, {speed}"


def _shown(loss: float) -> str:
    return "unknown" if math.isnan(loss) else f"{loss:.3f}"


def _evaluation_line(evaluation: Evaluation, unit: str) -> str:
    parts = [
        f"update {evaluation.update:,}, pass {evaluation.epoch:.2f}, {evaluation.seconds / 60:.1f} min, "
        f"{evaluation.examples_per_second:,.0f} {unit}s/s: {_TRAINING} loss {_shown(evaluation.training_loss)}"
    ]
    for name, loss in ((_HELD_OUT, evaluation.held_out), (_VALIDATION, evaluation.validation)):
        if loss is not None:
            parts.append(f"{name} loss {loss}")
    if evaluation.held_out is None and evaluation.validation is None:
        # Without this note, users could take the training loss of a small text for a held-out loss.
        parts.append("nothing held out")
    return ", ".join(parts) + (", the best so far" if evaluation.best else "")
