"""The state of a run (network, optimiser, progress): resume it, share it among ranks, and save it."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from phrasescore.errors import UserError, spelled
from phrasescore.files import full_disk_told, read_regular, write_atomically
from phrasescore.files.documents import LARGEST_JSON_LINES
from phrasescore.model_files import METRICS
from phrasescore.model_folder import save_weights
from phrasescore.training.checkpoint import (
    Checkpoint,
    Progress,
    Records,
    load_optimiser,
    open_checkpoint,
    optimiser_tensors,
    write_checkpoint,
)
from phrasescore.training.ranks import Ranks
from phrasescore.training.run_folder import RunFolder

_DATA = {
    "table": "another table",
    "sentences": "other sentences",
    "text": "another text",
    "validation": "other validation data",
    "vocabularies": "other vocabularies",
    "shortlist": "another shortlist",
    "plugins": "other plugins, or others than they are now (config.json names them)",
}
"""Descriptions of digests in a fingerprint, for messages."""


class RunState:
    """The state of a run on each rank. Only the first rank reads and writes the folder."""

    def __init__(
        self,
        folder: RunFolder,
        network: nn.Module,
        optimiser: torch.optim.Optimizer,
        run: dict[str, Any],
        ranks: Ranks,
    ) -> None:
        """Create the initial state of a run.

        Args:
            folder: the model folder.
            network: the network with its initial weights.
            optimiser: the optimiser of these weights.
            run: fingerprint of the run, as JSON values; it must be equal for a run to be resumed.
            ranks: the processes that share each batch.
        """
        self._folder, self._network, self._optimiser, self.run, self._ranks = folder, network, optimiser, run, ranks
        self.progress = Progress()
        self.saved_at = time.monotonic()

    def begin(self, describe: Callable[[Path], None], restart: bool) -> None:
        """Resume the run in the folder or start a new one.

        Args:
            describe: writes the description of the model, with the current settings, into a folder.
            restart: start over even if the folder holds a run.

        Raises:
            UserError: the folder holds a damaged run or a run with other settings or data, or the ranks differ in
                settings or data.
        """
        self._check_ranks()
        if self._ranks.is_first:
            is_resumed = not restart and self._resume()
            if not is_resumed:
                self._folder.start_over()
                write_atomically(self._metrics, b"")
            describe(self._folder.files)
            if is_resumed:
                self._catch_up()
            else:
                self.save()
        self._follow_first()

    @property
    def _metrics(self) -> Path:
        return self._folder.files / METRICS

    def _read_metrics(self) -> bytes:
        return read_regular(self._metrics, LARGEST_JSON_LINES) if self._metrics.exists() else b""

    # Resuming

    def _resume(self) -> bool:
        """Load the checkpoint in the folder; return whether there was one with at least one update.

        Raises:
            UserError: the checkpoint is damaged or has other settings or data.
        """
        if not self._folder.checkpoint.exists():
            return False
        with open_checkpoint(self._folder.checkpoint) as checkpoint:
            # A run that failed before its first update, for instance in a plugin, may be started with other settings.
            if checkpoint.progress.update == 0:
                return False
            self._check_run(checkpoint.run)
            records = self._records_of(checkpoint)
            checkpoint.restore(self._network, self._optimiser)
        write_atomically(self._metrics, records)
        self.progress = checkpoint.progress
        return True

    def _check_run(self, before: dict[str, Any]) -> None:
        """Check that an earlier run has the same settings and data.

        Raises:
            UserError: they differ.
        """
        if difference := self._difference(before):
            raise UserError(
                f"{self._folder.path}: holds a run with {difference}; give the same to resume it, another folder, or "
                f"{spelled('restart')} to start over"
            )

    def _difference(self, other: dict[str, Any]) -> str | None:
        """Describe the first difference between the fingerprints, None if they are equal."""
        for key in (*self.run, *other):
            if other.get(key) != self.run.get(key):
                return _DATA.get(key, f"another {key} ({other.get(key)}, now {self.run.get(key)})")
        return None

    def _records_of(self, checkpoint: Checkpoint) -> bytes:
        """Return the evaluation records up to a checkpoint, without later records of a killed run.

        Raises:
            UserError: the records do not match their digest.
        """
        content = self._read_metrics()
        kept = content[: checkpoint.records.length]
        # Users may delete the file.
        if content and Records.of(kept) != checkpoint.records:
            raise UserError(f"{self._metrics}: is damaged; copy it again, or remove it to go on without its records")
        return kept

    def _catch_up(self) -> None:
        """Write the weights of the checkpoint if a kill kept the earlier run from writing them."""
        if self.progress.best_loss is not None and self.progress.best_update == self.progress.update:
            self.save_weights()

    # Ranks

    def _check_ranks(self) -> None:
        """Check that all ranks have the same settings and data.

        Raises:
            UserError: this rank differs from the first.
        """
        if difference := self._difference(self._ranks.of_first(lambda: self.run)):
            raise UserError(
                f"{self._folder.path}: process {self._ranks.rank} of this training has {difference}; start all with "
                "the same command and the same files"
            )
        self._ranks.wait()

    def _follow_first(self) -> None:
        """Copy the state from the first rank, which has started or resumed the run."""
        if self._ranks.number == 1:
            return
        self.progress, network, optimiser = self._ranks.of_first(self._on_the_cpu)
        self._network.load_state_dict(network)
        load_optimiser(self._optimiser, optimiser)

    def _on_the_cpu(self) -> tuple[Progress, dict[str, Tensor], dict[str, Tensor]]:
        """Return the progress and the states of network and optimiser, with tensors on the CPU."""
        states = self._network.state_dict(), optimiser_tensors(self._optimiser)
        network, optimiser = ({name: tensor.cpu() for name, tensor in state.items()} for state in states)
        return self.progress, network, optimiser

    # Saving

    def record(self, line: bytes) -> None:
        """Append a line to `metrics.jsonl`."""
        with full_disk_told(str(self._metrics)), self._metrics.open("ab") as stream:
            stream.write(line)

    def save(self) -> None:
        """Write the checkpoint."""
        self.saved_at = time.monotonic()
        if not self._ranks.is_first:
            return
        records = Records.of(self._read_metrics())
        write_checkpoint(self._folder.checkpoint, self._network, self._optimiser, self.progress, self.run, records)

    def save_weights(self) -> None:
        """Write the best weights, which replace an earlier network if there is one."""
        save_weights(self._folder.files, self._network)
        self._folder.replace()

    def save_first_weights(self) -> None:
        """Write the current weights if the folder has none and no earlier network is to be replaced."""
        if self.progress.best_loss is None and not self._folder.replaces_another:
            save_weights(self._folder.files, self._network)
