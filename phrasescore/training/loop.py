"""The training loop."""

from __future__ import annotations

import json
import math
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from phrasescore.device import Device
from phrasescore.errors import UserError
from phrasescore.files import try_to_lock, write_atomically
from phrasescore.model_folder import METRICS, TRAINING_STATE, save_weights
from phrasescore.nn.batch import PairBatch
from phrasescore.nn.encoder_decoder import EncoderDecoder
from phrasescore.pairs import PhrasePairs, batches_of_pass
from phrasescore.training.checkpoint import Checkpoint, Progress
from phrasescore.training.config import TrainingConfig
from phrasescore.training.evaluation import Loss, mean_loss
from phrasescore.training.optimisers import make_optimiser, rate_factor

CHECKPOINT = "checkpoint.safetensors"
LOCK = "lock"
_LOOK_EVERY = 20
"""Updates between looks at the loss: each waits for the device."""


@dataclass(frozen=True)
class TrainingPairs:
    """The pairs to learn from and those to measure on."""

    table: PhrasePairs
    lines: NDArray[np.int64]
    """The lines of the table to learn from."""
    held_out: PhrasePairs
    """Random pairs of the same table."""
    validation: PhrasePairs | None
    """Pairs of other sentences, if there are any."""


@dataclass(frozen=True)
class Evaluation:
    """What is known at one point of a run; a line of `metrics.jsonl`."""

    update: int
    epoch: float
    seconds: float
    pairs_per_second: float
    learning_rate: float
    training_loss: float
    """Nats per pair on the training batches since the last evaluation."""
    held_out: Loss | None
    validation: Loss | None
    best: bool


@dataclass(frozen=True)
class Status:
    """What a progress bar shows between evaluations."""

    update: int
    spent: float
    """Share of the budget."""
    pairs_per_second: float
    loss: float
    """Nats per pair since the last evaluation."""
    held_out: float | None
    """The lowest held-out loss so far."""


@dataclass(frozen=True)
class Watcher:
    """Whom the loop tells, and who can stop it."""

    on_update: Callable[[Status], None] = lambda status: None
    """Called now and then."""
    on_evaluation: Callable[[Evaluation], None] = lambda evaluation: None
    should_stop: Callable[[], bool] = lambda: False
    """Asked after each update; if true the run saves its state and returns."""


class Trainer:
    """Trains a network in a model folder, from wherever an earlier run stopped.

    On a CPU the weights after a stop and a resumption are bit for bit those of a run never stopped, if the
    budget is given in updates or passes: the schedule of a budget in minutes depends on the clock.
    """

    def __init__(
        self,
        folder: Path,
        network: EncoderDecoder,
        pairs: TrainingPairs,
        config: TrainingConfig,
        device: Device,
        run: dict[str, Any],
        watcher: Watcher | None = None,
    ) -> None:
        """Prepare a run.

        Args:
            folder: the model folder, with its description already written.
            network: the network with its initial weights, on the device.
            pairs: training, held-out and validation pairs.
            config: optimiser, schedule, budget.
            device: where and how precisely to compute.
            run: what must be the same for a run to be resumed, as JSON values.
            watcher: whom to tell.
        """
        self.folder, self.network, self.pairs = folder, network, pairs
        self.config, self.device, self.run = config, device, run
        self.watcher = watcher or Watcher()
        self.optimiser = make_optimiser(network, config)
        self.progress = Progress()
        self._loss_sum = torch.zeros((), dtype=torch.float64, device=device.torch_device)
        network.multiply_in(device.product_dtype)

    @property
    def _checkpoint_path(self) -> Path:
        return self.folder / TRAINING_STATE / CHECKPOINT

    def resume(self) -> bool:
        """Take up the state an earlier run left in the folder; return whether there was one.

        Raises:
            UserError: it was started with other settings or data, or is damaged.
        """
        if not self._checkpoint_path.exists():
            write_atomically(self.folder / METRICS, b"")
            return False
        checkpoint = Checkpoint.load(self._checkpoint_path)
        for key in self.run.keys() | checkpoint.run.keys():
            before, now = checkpoint.run.get(key), self.run.get(key)
            if before != now:
                raise UserError(
                    f"{self.folder}: holds a run with another {key} ({before}, now {now}); give the same "
                    "settings to resume it, another folder, or --restart to start over"
                )
        checkpoint.restore(self.network, self.optimiser)
        self.progress = checkpoint.progress
        self.progress.finished = None
        self._loss_sum.fill_(self.progress.loss_sum)
        self._forget_later_metrics()
        return True

    def train(self) -> Progress:
        """Train until the budget is spent, the held-out loss no longer falls, or the watcher says stop.

        Raises:
            UserError: the loss is no longer a number, or another run is training in the folder.
        """
        with (self.folder / TRAINING_STATE / LOCK).open("wb") as lock:
            if not try_to_lock(lock):
                raise UserError(f"{self.folder}: another run is training in this folder; wait for it or give another")
            return self._train()

    def _train(self) -> Progress:
        while not self._is_finished():
            batches = batches_of_pass(
                self.pairs.table,
                self.pairs.lines,
                self.config.batch_size,
                self.config.seed,
                self.progress.epoch,
            )
            for lines in islice(batches, self.progress.batch, None):
                self._timed_update(self.pairs.table.take(lines))
                if self.progress.update % self.config.evaluate_every == 0:
                    self._evaluate_and_save()
                if self._is_finished():
                    break
                if self.watcher.should_stop():
                    return self._stop()
            else:
                self.progress.epoch += 1
                self.progress.batch = 0
        if self.progress.pair_sum:
            self._evaluate_and_save()
        return self.progress

    def _stop(self) -> Progress:
        """Save the state in the middle of a pass, and weights to look at if there are none yet."""
        self._check_loss()
        self.save_checkpoint()
        if self.progress.best_loss is None:
            save_weights(self.folder, self.network)
        return self.progress

    def spent(self) -> float:
        """Return the share of the budget that is spent, 0 to 1."""
        config, progress = self.config, self.progress
        batches = math.ceil(len(self.pairs.lines) / config.batch_size)
        shares = [0.0]
        if config.epochs is not None:
            shares.append((progress.epoch + progress.batch / batches) / config.epochs)
        if config.max_updates is not None:
            shares.append(progress.update / config.max_updates)
        if config.max_minutes is not None:
            shares.append(progress.seconds / (60 * config.max_minutes))
        return min(1.0, max(shares))

    def _is_finished(self) -> bool:
        config, progress = self.config, self.progress
        if config.patience and progress.evaluations_without_gain >= config.patience:
            progress.finished = "the held-out loss no longer falls"
        elif self.spent() >= 1.0:
            progress.finished = "the budget is spent"
        return progress.finished is not None

    def _timed_update(self, pairs: PhrasePairs) -> None:
        started = time.monotonic()
        spent = self._update(pairs)
        progress = self.progress
        progress.update += 1
        progress.batch += 1
        progress.pair_sum += len(pairs)
        if progress.update % _LOOK_EVERY == 0:
            self._check_loss()
            self.watcher.on_update(self._status(spent))
        seconds = time.monotonic() - started
        progress.seconds += seconds
        progress.second_sum += seconds

    def _status(self, spent: float) -> Status:
        progress = self.progress
        rate = progress.pair_sum / progress.second_sum if progress.second_sum else 0.0
        held_out = progress.best_loss if len(self.pairs.held_out) else None
        return Status(progress.update, spent, rate, progress.loss_sum / progress.pair_sum, held_out)

    def _update(self, pairs: PhrasePairs) -> float:
        """Follow the gradient of the mean negative log-likelihood per pair (Eq. 4); return the budget spent."""
        spent = self.spent()
        rate = self.config.learning_rate * rate_factor(self.config, self.progress.update, spent)
        for group in self.optimiser.param_groups:
            group["lr"] = rate
        device = self.device.torch_device
        batch = PairBatch.apart(pairs.source, pairs.target).to(device)
        # The masks of dropout depend on the update alone, so that a resumed run draws the same ones.
        torch.manual_seed((self.config.seed << 32) + self.progress.update)
        self.optimiser.zero_grad(set_to_none=True)
        with self.device.products():
            log_prob_I = self.network(batch)
            weight_P = torch.from_numpy(pairs.weight).to(device)
            loss: Tensor = -(log_prob_I * weight_P[batch.pair_I]).sum() / len(pairs)
            loss.backward()
            torch.nn.utils.clip_grad_norm_(self.network.parameters(), self.config.clip, foreach=True)
            self.optimiser.step()
        self._loss_sum += loss.detach().double() * len(pairs)
        return spent

    def _check_loss(self, measured: float = 0.0) -> None:
        self.progress.loss_sum = float(self._loss_sum)
        if not math.isfinite(self.progress.loss_sum + measured):
            best = (
                f"the weights of update {self.progress.best_update} are kept in {self.folder}"
                if self.progress.best_loss is not None
                else "no weights were saved yet"
            )
            raise UserError(
                f"update {self.progress.update}: the loss is not a number; {best}, train again with a lower "
                "--learning-rate or with --precision fp32"
            )

    def _evaluate_and_save(self) -> None:
        started = time.monotonic()
        self._check_loss()
        progress = self.progress
        held_out = mean_loss(self.network, self.pairs.held_out, self.device) if len(self.pairs.held_out) else None
        validation = mean_loss(self.network, self.pairs.validation, self.device) if self.pairs.validation else None
        measured = held_out or validation
        training_loss = progress.loss_sum / progress.pair_sum
        loss = measured.per_pair if measured else training_loss
        self._check_loss(loss)
        best = progress.best_loss is None or loss < progress.best_loss
        if best:
            save_weights(self.folder, self.network)
            progress.best_loss, progress.best_update = loss, progress.update
        progress.evaluations_without_gain = 0 if best else progress.evaluations_without_gain + 1
        batches = math.ceil(len(self.pairs.lines) / self.config.batch_size)
        evaluation = Evaluation(
            update=progress.update,
            epoch=progress.epoch + progress.batch / batches,
            seconds=progress.seconds,
            pairs_per_second=progress.pair_sum / progress.second_sum,
            learning_rate=self.optimiser.param_groups[0]["lr"],
            training_loss=training_loss,
            held_out=held_out,
            validation=validation,
            best=best,
        )
        progress.loss_sum, progress.pair_sum, progress.second_sum = 0.0, 0, 0.0
        self._loss_sum.zero_()
        with (self.folder / METRICS).open("a") as stream:
            stream.write(json.dumps(asdict(evaluation)) + "\n")
        progress.seconds += time.monotonic() - started
        self.save_checkpoint()
        self.watcher.on_evaluation(evaluation)

    def save_checkpoint(self) -> None:
        """Write the state of the run."""
        Checkpoint.capture(self.network, self.optimiser, self.progress, self.run).save(self._checkpoint_path)

    def _forget_later_metrics(self) -> None:
        """Drop the records of evaluations that a killed run made after its last checkpoint."""
        path = self.folder / METRICS
        lines = path.read_bytes().splitlines(keepends=True) if path.exists() else []
        kept = [line for line in lines if line.endswith(b"\n") and json.loads(line)["update"] <= self.progress.update]
        write_atomically(path, b"".join(kept))
