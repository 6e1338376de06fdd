"""The training loop."""

from __future__ import annotations

import json
import math
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from itertools import islice
from pathlib import Path
from typing import Any, Generic

import torch
from torch import nn

from phrasescore.errors import UserError
from phrasescore.files import finite
from phrasescore.text import counted
from phrasescore.training.budget import Budget
from phrasescore.training.checkpoint import Progress
from phrasescore.training.optimisers import make_optimiser
from phrasescore.training.ranks import ALONE, Ranks
from phrasescore.training.run_folder import RunFolder
from phrasescore.training.run_state import RunState
from phrasescore.training.task import Examples, Loss, TaskT

_LOOK_EVERY = 20
"""Updates between looks at the loss: each waits for the device."""
_SAVE_SECONDS = 600.0
"""Seconds after which the state is saved without an evaluation: what a kill can cost."""
_SEEDS_A_RANK = 1 << 24
"""Updates until the dropout of a rank draws what that of the next one has drawn before."""


@dataclass(frozen=True)
class Evaluation:
    """What is known at one point of a run."""

    update: int
    epoch: float
    seconds: float
    examples_per_second: float
    learning_rate: float
    training_loss: float
    """Mean over the terms, pairs or words, of the training batches since the last evaluation; not a number of none."""
    held_out: Loss | None
    validation: Loss | None
    best: bool

    def record(self, unit: str) -> dict[str, Any]:
        """Return a line of `metrics.jsonl`, with the speed under the name of what an example is."""
        return {f"{unit}s_per_second" if key == "examples_per_second" else key: v for key, v in asdict(self).items()}


@dataclass(frozen=True)
class Status:
    """What a progress bar shows between evaluations."""

    update: int
    spent: float
    """Share of the budget."""
    examples_per_second: float
    loss: float
    """Mean over the terms of the batches since the last evaluation; not a number of none."""
    lowest: float | None
    """The lowest loss of an evaluation so far."""


@dataclass(frozen=True)
class Watcher:
    """Whom the loop tells, and who can stop it."""

    on_update: Callable[[Status], None] = lambda status: None
    """Called now and then."""
    on_evaluation: Callable[[Evaluation], None] = lambda evaluation: None
    should_stop: Callable[[], bool] = lambda: False
    """Asked after each update; if true the run saves its state and returns."""


class Trainer(Generic[TaskT]):
    """Trains the network of a task in a model folder, from wherever an earlier run stopped.

    On a CPU the weights after a stop and a resumption are bit for bit those of a run never stopped, if the
    budget is given in updates or passes: the schedule of a budget in minutes depends on the clock.

    Several ranks have a trainer each, and do the same updates. The first measures, saves and tells; its state is that
    of a process alone, so that a run resumes on any number of ranks.
    """

    def __init__(self, folder: RunFolder, task: TaskT, run: dict[str, Any], ranks: Ranks = ALONE) -> None:
        """Prepare a run, which `watcher` may be set to watch.

        Args:
            folder: the model folder, which is the run's until the training returns.
            task: the network with its initial weights, the data, the loss, how and where to compute.
            run: what must be the same for a run to be resumed, as JSON values.
            ranks: the processes that share each batch.

        Raises:
            UsageError: nothing would end the run, or a schedule would not do what it says.
        """
        self.config, self.device, self.ranks = task.config, task.device, ranks
        self.budget = Budget(self.config, task.batches_per_pass)
        self.budget.check(is_measured=bool(task.held_out or task.validation))
        self.folder, self.task, self.network = folder, task, task.network
        self.watcher = Watcher()
        self.optimiser = make_optimiser(self.network, self.config)
        self.state = RunState(folder, self.network, self.optimiser, run, ranks)
        # All ranks see the same draws where there is no dropout: which steps go on from the words of the target.
        has_dropout = any(module.p for module in self.network.modules() if isinstance(module, nn.Dropout))
        self._first_seed = ranks.rank * _SEEDS_A_RANK if has_dropout else 0
        self._loss_sum = torch.zeros((), dtype=torch.float64, device=self.device.torch_device)

    @property
    def progress(self) -> Progress:
        """Where the run stands."""
        return self.state.progress

    def begin(self, describe: Callable[[Path], None], restart: bool) -> None:
        """Resume the run in the folder, or start one there, see `RunState.begin`; the trainer is at its start."""
        self.state.begin(describe, restart)
        self._loss_sum.fill_(self.progress.loss_sum)

    def train(self) -> Progress:
        """Train until the budget is spent, the measured loss no longer falls, or the watcher says stop.

        Raises:
            UserError: the loss is no longer a number.
        """
        try:
            return self._train()
        finally:
            self.folder.release()

    def _train(self) -> Progress:
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
                if self.ranks.largest(self.watcher.should_stop()):
                    # The others wait for it: torchrun ends all when the first has gone.
                    self.state.progress = self.ranks.of_first(self._stop)
                    return self.progress
            else:
                self.progress.epoch += 1
                self.progress.batch = 0
        if self.progress.example_sum:
            self._evaluate_and_save()
        if self.progress.best_loss is None:
            raise UserError(
                f"{self.folder.path}: none of the sentences that {counted(self.progress.update, 'update')} drew has a "
                "phrase pair; train longer, or check the alignment"
            )
        self.progress.finished = self.budget.reason_to_end(self.progress)
        return self.progress

    def _stop(self) -> Progress:
        """Save the state in the middle of a pass, and weights to look at if there are none yet."""
        self._check_loss()
        self.state.save()
        self.state.save_first_weights()
        return self.progress

    def _timed_update(self, examples: Examples) -> None:
        started = time.monotonic()
        spent = self._update(examples)
        progress = self.progress
        progress.update += 1
        progress.batch += 1
        progress.example_sum += len(examples)
        if progress.update % _LOOK_EVERY == 0:
            self._check_loss()
            self.watcher.on_update(self._status(spent))
        seconds = self.ranks.largest(time.monotonic() - started)
        progress.seconds += seconds
        progress.second_sum += seconds

    def _status(self, spent: float) -> Status:
        progress = self.progress
        rate = progress.example_sum / progress.second_sum if progress.second_sum else 0.0
        return Status(progress.update, spent, rate, progress.training_loss, progress.best_loss)

    def _update(self, examples: Examples) -> float:
        """Follow the gradient of the mean loss of some examples; return the budget spent."""
        spent, rate = self.budget.spent(self.progress), self.budget.learning_rate(self.progress)
        for group in self.optimiser.param_groups:
            group["lr"] = rate
        # The masks of dropout depend on the update and the rank alone, so that a resumed run draws the same ones.
        torch.manual_seed((self.config.seed << 32) + self._first_seed + self.progress.update)
        self.optimiser.zero_grad(set_to_none=True)
        with self.device.products():
            loss = self.ranks.backward(self.network, self.task.loss, examples)
            if self.config.clip:
                torch.nn.utils.clip_grad_norm_(self.network.parameters(), self.config.clip, foreach=True)
            self.optimiser.step()
        self._loss_sum += loss.mean.double() * loss.terms
        self.progress.loss_terms += loss.terms
        return spent

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
                "--learning-rate or with --precision fp32"
            )

    def _evaluate_and_save(self) -> None:
        self.state.progress = self.ranks.of_first(self._evaluate)
        self._loss_sum.zero_()

    def _evaluate(self) -> Progress:
        """Measure the loss, record it, save the state, and the weights if they are the best; return the progress."""
        started = time.monotonic()
        self._check_loss()
        progress = self.progress
        held_out, validation = (
            self.task.measure(data) if data else None for data in (self.task.held_out, self.task.validation)
        )
        # Other sentences tell better than pieces of the same ones when learning turns into learning by heart.
        measured = validation or held_out
        training_loss = progress.training_loss
        loss = measured.per_example if measured else training_loss
        # Sentences without a phrase pair in context say nothing of the network, be it good or bad.
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
            epoch=self.budget.passes(progress),
            seconds=progress.seconds,
            examples_per_second=progress.example_sum / progress.second_sum,
            learning_rate=self.optimiser.param_groups[0]["lr"],
            training_loss=training_loss,
            held_out=held_out,
            validation=validation,
            best=best,
        )
        progress.loss_sum, progress.loss_terms, progress.example_sum, progress.second_sum = 0.0, 0, 0, 0.0
        self.state.record(_line(evaluation.record(self.task.unit)))
        progress.seconds += time.monotonic() - started
        # In this order: who resumes after a kill in between finds the weights in the checkpoint.
        self.state.save()
        if best:
            self.state.save_weights()
        self.watcher.on_evaluation(evaluation)
        return progress


def _line(record: dict[str, Any]) -> bytes:
    """Return a line of `metrics.jsonl`."""
    return json.dumps(finite(record)).encode() + b"\n"
