"""The training loop."""

from __future__ import annotations

import json
import math
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from itertools import islice
from typing import Any, Generic

import numpy as np
import torch
from torch import nn

from phrasescore.errors import UserError, arg_name
from phrasescore.files import finite
from phrasescore.plugins import Registry
from phrasescore.text import Log, ProgressCallback, counted, no_log, no_progress
from phrasescore.training.checkpoint import RunFolder, RunState, TrainingProgress
from phrasescore.training.ranks import ALONE, Ranks
from phrasescore.training.tasks import Examples, Loss, TaskT
from phrasescore.training.training_config import Budget, OptimisationConfig

OptimiserBuilder = Callable[[list[nn.Parameter], OptimisationConfig], torch.optim.Optimizer]
"""Creates an optimiser. Its state must consist of numbers and tensors, because checkpoints store it."""
OPTIMISERS: Registry[OptimiserBuilder] = Registry("optimiser")
register_optimiser = OPTIMISERS.register

_LOOK_EVERY = 20
"""Updates between reads of the loss, because each read synchronises with the device."""
_SMALLEST_AVERAGE = 1e-30
"""Far below what changes an update, and too far above denormal numbers to reach them in `_LOOK_EVERY` updates."""
_SAVE_SECONDS = 600.0
"""Maximum seconds between saves, which limits the loss of work after a kill."""
_RISE = 0.05
"""Rise of the validation loss, relative to its fall, that indicates overfitting."""


@register_optimiser("adam")
def _adam(parameters: list[nn.Parameter], config: OptimisationConfig) -> torch.optim.Optimizer:
    return torch.optim.Adam(parameters, lr=config.learning_rate, fused=True)


@register_optimiser("adadelta")
def _adadelta(parameters: list[nn.Parameter], config: OptimisationConfig) -> torch.optim.Optimizer:
    """Return Adadelta with the settings of the paper (rho 0.95, epsilon 1e-6, rate 1), not PyTorch's defaults."""
    return torch.optim.Adadelta(parameters, lr=config.learning_rate, rho=0.95, eps=1e-6)


@dataclass(frozen=True)
class Evaluation:
    """Losses and speed at one evaluation."""

    update: int
    epoch: float
    seconds: float
    examples_per_second: float
    learning_rate: float
    training_loss: float
    """Mean training loss per term (pair or word) since the last evaluation; NaN without terms."""
    held_out: Loss | None
    validation: Loss | None
    best: bool


@dataclass(frozen=True)
class Callbacks:
    """Callbacks of the training loop."""

    on_update: Callable[[float, TrainingProgress], None] = lambda spent, progress: None
    """Called regularly, with the fraction of the budget that is spent."""
    on_evaluation: Callable[[Evaluation], None] = lambda evaluation: None
    should_stop: Callable[[], bool] = lambda: False
    """Called after each update; if true, the run saves its state and returns."""


@dataclass(frozen=True)
class Start:
    """Options and callbacks for the start of a run. By default it resumes an earlier run if there is one."""

    restart: bool = False
    progress: ProgressCallback = no_progress
    log: Log = no_log
    ranks: Ranks = ALONE


class Trainer(Generic[TaskT]):
    """Trains the network of a task in a model folder, and resumes an interrupted run.

    On a CPU, the weights of a resumed run are bit for bit those of an uninterrupted run, if the budget is given in
    updates or epochs: the schedule of a budget in minutes depends on the clock.

    Each rank has its own trainer and does the same updates. Only the first rank evaluates, saves and logs. The saved
    state does not depend on the number of ranks, so a run can be resumed with another number.
    """

    def __init__(self, folder: RunFolder, task: TaskT, fingerprint: dict[str, Any], ranks: Ranks = ALONE) -> None:
        """Prepare a run in a locked model folder; `fingerprint` must be equal for a run to be resumed."""
        self.config, self.device, self.ranks = task.config, task.device, ranks
        self.budget = Budget(self.config, task.batches_per_epoch)
        self.budget.check(is_measured=bool(task.held_out or task.validation))
        self.folder, self.task, self.network = folder, task, task.network
        self.callbacks = Callbacks()
        self.optimiser = OPTIMISERS[self.config.optimiser](list(self.network.parameters()), self.config)
        self.state = RunState(folder, self.network, self.optimiser, fingerprint, ranks)
        # Without dropout, all ranks draw the same random numbers, which select the teacher-forced steps.
        has_dropout = any(module.p for module in self.network.modules() if isinstance(module, nn.Dropout))
        self._stream = ranks.rank if has_dropout else 0
        self._loss_sum = torch.zeros((), dtype=torch.float64, device=self.device.torch_device)

    @property
    def progress(self) -> TrainingProgress:
        return self.state.progress

    def begin(self, describe: Callable[[dict[str, Any]], None], *, restart: bool) -> None:
        """Resume the run in the folder, or start a new one; `describe` writes the description with the given facts."""
        facts = {**asdict(self.config), "warmup_updates": self.budget.warmup, "device": str(self.device)}
        self.state.begin(lambda: describe(facts), restart)
        self._loss_sum.fill_(self.progress.loss_sum)

    def train(self) -> TrainingProgress:
        """Train until the budget is spent, the measured loss stops falling, or a callback requests a stop."""
        try:
            return self._train()
        finally:
            self.folder.release()

    def _train(self) -> TrainingProgress:
        while self.budget.reason_to_end(self.progress) is None:
            for examples in islice(self.task.batches(self.progress.epoch), self.progress.batch, None):
                self._timed_update(examples)
                if self.budget.is_due(self.progress):
                    self._evaluate_and_save()
                elif time.monotonic() - self.state.saved_at >= _SAVE_SECONDS:
                    self._check_loss()
                    self.state.save()
                if self.budget.reason_to_end(self.progress) is not None:
                    break
                if self.ranks.all_reduce_max(self.callbacks.should_stop()):
                    # The other ranks wait: torchrun ends all processes when the first one exits.
                    self.state.progress = self.ranks.broadcast_from_first(self._stop)
                    return self.progress
            else:
                self.progress.epoch += 1
                self.progress.batch = 0
        if self.progress.example_sum:
            self._evaluate_and_save()
        if self.progress.best_loss is None:
            raise UserError(
                f"{self.folder.path}: none of the sentences of {counted(self.progress.update, 'update')} has a phrase "
                "pair; train longer, or check the alignment"
            )
        self.progress.finished = self.budget.reason_to_end(self.progress)
        return self.progress

    def _stop(self) -> TrainingProgress:
        """Save the state in the middle of an epoch, and the weights if none have been saved yet."""
        self._check_loss()
        self.state.save()
        if self.progress.best_loss is None:
            self.state.save_weights()
        return self.progress

    def _timed_update(self, examples: Examples) -> None:
        started = time.monotonic()
        self._update(examples)
        progress = self.progress
        progress.update += 1
        progress.batch += 1
        progress.example_sum += len(examples)
        if progress.update % _LOOK_EVERY == 0:
            self._check_loss()
            _clear_small_averages(self.optimiser)
            self.callbacks.on_update(self.budget.spent(progress), progress)
        seconds = self.ranks.all_reduce_max(time.monotonic() - started)
        progress.seconds += seconds
        progress.second_sum += seconds

    def _update(self, examples: Examples) -> None:
        for group in self.optimiser.param_groups:
            group["lr"] = self.budget.learning_rate(self.progress)
        # Random numbers depend only on seed, rank and update, so that a resumed run draws the same dropout masks.
        # PyTorch uses only the low 32 bits of a seed on CPUs.
        sequence = np.random.SeedSequence([self.config.seed, self._stream, self.progress.update])
        torch.manual_seed(int(sequence.generate_state(1)[0]))
        self.optimiser.zero_grad(set_to_none=True)
        with self.device.products():
            loss = self.ranks.backward(self.network, self.task.loss, examples)
            if self.config.clip:
                torch.nn.utils.clip_grad_norm_(self.network.parameters(), self.config.clip, foreach=True)
            self.optimiser.step()
        self._loss_sum += loss.mean.double() * loss.terms
        self.progress.loss_terms += loss.terms

    def _check_loss(self, measured: float = 0.0) -> None:
        self.progress.loss_sum = float(self._loss_sum)
        if not math.isfinite(self.progress.loss_sum + measured):
            best = (
                f"the weights of update {self.progress.best_update} are kept in {self.folder.path}"
                if self.progress.best_loss is not None
                else "no weights were saved yet"
            )
            raise UserError(
                f"update {self.progress.update}: the loss is not a number; {best}, train again with a lower "
                f"{arg_name('learning_rate')} or with {arg_name('precision', 'fp32')}"
            )

    def _evaluate_and_save(self) -> None:
        self.state.progress = self.ranks.broadcast_from_first(self._evaluate)
        self._loss_sum.zero_()

    def _evaluate(self) -> TrainingProgress:
        """Measure and record the loss; save the state, and the weights if they are the best so far."""
        started = time.monotonic()
        self._check_loss()
        progress = self.progress
        held_out, validation = (
            self.task.measure(data) if data else None for data in (self.task.held_out, self.task.validation)
        )
        # Pairs from other sentences detect overfitting; held-out pairs are parts of the training sentences.
        measured = validation or held_out
        training_loss = progress.training_loss
        loss = measured.per_example if measured else training_loss
        # Without any phrase pair in context, the training loss is undefined, which is not an error.
        is_known = measured is not None or progress.loss_terms > 0
        if is_known:
            self._check_loss(loss)
        best = is_known and (progress.best_loss is None or loss < progress.best_loss)
        if best:
            progress.best_loss, progress.best_update = loss, progress.update
        if is_known:
            progress.evaluations_without_gain = 0 if best else progress.evaluations_without_gain + 1
        evaluation = Evaluation(
            update=progress.update,
            epoch=self.budget.epochs(progress),
            seconds=progress.seconds,
            examples_per_second=progress.examples_per_second,
            learning_rate=self.optimiser.param_groups[0]["lr"],
            training_loss=training_loss,
            held_out=held_out,
            validation=validation,
            best=best,
        )
        progress.loss_sum, progress.loss_terms, progress.example_sum, progress.second_sum = 0.0, 0, 0, 0.0
        self.state.record(json.dumps(finite(asdict(evaluation))).encode() + b"\n")
        progress.seconds += time.monotonic() - started
        # Save the state first: if the process is killed in between, the weights are in the checkpoint.
        self.state.save()
        if best:
            self.state.save_weights()
        self.callbacks.on_evaluation(evaluation)
        return progress


def _clear_small_averages(optimiser: torch.optim.Optimizer) -> None:
    """Set tiny averages of gradients to 0.

    Without gradients, those of a rare word fall by a tenth at each update of Adam, and would stay denormal numbers,
    with which the update of the weights takes ten times as long on a CPU.
    """
    for state in optimiser.state.values():
        for average in state.values():
            if isinstance(average, torch.Tensor) and average.is_floating_point():
                average.copy_(nn.functional.hardshrink(average, _SMALLEST_AVERAGE))


def is_overfitting(evaluations: Sequence[Evaluation]) -> bool:
    """Return whether the validation loss has risen, relative to its total fall, while the training loss fell."""
    measured = [(one.validation.per_example, one.training_loss) for one in evaluations if one.validation is not None]
    if not measured:
        return False
    (first, _), (lowest, at_lowest), (last, at_last) = measured[0], min(measured), measured[-1]
    return last - lowest > _RISE * (first - lowest) and at_last < at_lowest
