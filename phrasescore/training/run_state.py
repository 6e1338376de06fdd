"""The state of a run, network, optimiser and progress: begun or taken up from its folder, shared, and saved there."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from phrasescore.documents import LARGEST_JSON_LINES
from phrasescore.errors import UserError
from phrasescore.files import full_disk_told, read_regular, write_atomically
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
"""What of a run is kept as a digest, which says nothing to a reader, in words."""


class RunState:
    """Where a run stands, on every rank. The first rank alone reads and writes the folder."""

    def __init__(
        self,
        folder: RunFolder,
        network: nn.Module,
        optimiser: torch.optim.Optimizer,
        run: dict[str, Any],
        ranks: Ranks,
    ) -> None:
        """Stand at the start of a run.

        Args:
            folder: the model folder.
            network: with its initial weights.
            optimiser: of these.
            run: what must be the same for the run to be resumed, as JSON values.
            ranks: the processes that share each batch.
        """
        self._folder, self._network, self._optimiser, self.run, self._ranks = folder, network, optimiser, run, ranks
        self.progress = Progress()
        self.saved_at = time.monotonic()

    def begin(self, describe: Callable[[Path], None], restart: bool) -> None:
        """Take up the run in the folder, or start one there.

        Args:
            describe: writes the description of the model, which says how it is trained now, into a folder.
            restart: start over even if the folder holds a run.

        Raises:
            UserError: the folder holds a run with other settings or data, or a damaged one, or the ranks differ in
                them.
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

    # Taking up

    def _resume(self) -> bool:
        """Take up the state an earlier run left in the folder; return whether there was one that had begun to learn.

        Raises:
            UserError: it was started with other settings or data, or is damaged.
        """
        if not self._folder.checkpoint.exists():
            return False
        with open_checkpoint(self._folder.checkpoint) as checkpoint:
            # What failed before its first update, in a plugin, say, may be done anew in another way.
            if checkpoint.progress.update == 0:
                return False
            self._check_run(checkpoint.run)
            records = self._records_of(checkpoint)
            checkpoint.restore(self._network, self._optimiser)
        write_atomically(self._metrics, records)
        self.progress = checkpoint.progress
        return True

    def _check_run(self, before: dict[str, Any]) -> None:
        """Check that an earlier run was started with the same settings and data.

        Raises:
            UserError: it was not.
        """
        if difference := self._difference(before):
            raise UserError(
                f"{self._folder.path}: holds a run with {difference}; give the same to resume it, another folder, or "
                "--restart to start over"
            )

    def _difference(self, other: dict[str, Any]) -> str | None:
        """Return in words what another run was started with that this one was not, None if there is nothing."""
        for key in (*self.run, *other):
            if other.get(key) != self.run.get(key):
                return _DATA.get(key, f"another {key} ({other.get(key)}, now {self.run.get(key)})")
        return None

    def _records_of(self, checkpoint: Checkpoint) -> bytes:
        """Return the records of the evaluations before a checkpoint, without those that a killed run made after it.

        Raises:
            UserError: they are not those that were written.
        """
        content = self._read_metrics()
        kept = content[: checkpoint.records.length]
        # Who removes the file can do without.
        if content and Records.of(kept) != checkpoint.records:
            raise UserError(f"{self._metrics}: is damaged; copy it again, or remove it to go on without its records")
        return kept

    def _catch_up(self) -> None:
        """Write what a kill may have kept an earlier run from writing behind its last state: the weights in it."""
        if self.progress.best_loss is not None and self.progress.best_update == self.progress.update:
            self.save_weights()

    # Ranks

    def _check_ranks(self) -> None:
        """Check that all ranks were started with the same settings and data.

        Raises:
            UserError: this one was not.
        """
        if difference := self._difference(self._ranks.of_first(lambda: self.run)):
            raise UserError(
                f"{self._folder.path}: process {self._ranks.rank} of this training has {difference}; start all with "
                "the same command and the same files"
            )
        self._ranks.wait()

    def _follow_first(self) -> None:
        """Take the state of the first rank, which has begun the run or resumed it."""
        if self._ranks.number == 1:
            return
        self.progress, network, optimiser = self._ranks.of_first(self._on_the_cpu)
        self._network.load_state_dict(network)
        load_optimiser(self._optimiser, optimiser)

    def _on_the_cpu(self) -> tuple[Progress, dict[str, Tensor], dict[str, Tensor]]:
        """Return where the run stands, and the states of network and optimiser in tensors that no GPU holds."""
        states = self._network.state_dict(), optimiser_tensors(self._optimiser)
        network, optimiser = ({name: tensor.cpu() for name, tensor in state.items()} for state in states)
        return self.progress, network, optimiser

    # Saving

    def record(self, line: bytes) -> None:
        """Write one more line of `metrics.jsonl`.

        Raises:
            UserError: the disk is full.
        """
        with full_disk_told(str(self._metrics)), self._metrics.open("ab") as stream:
            stream.write(line)

    def save(self) -> None:
        """Write the state."""
        self.saved_at = time.monotonic()
        if not self._ranks.is_first:
            return
        records = Records.of(self._read_metrics())
        write_checkpoint(self._folder.checkpoint, self._network, self._optimiser, self.progress, self.run, records)

    def save_weights(self) -> None:
        """Write weights that were measured; those of a network that they are to replace are there until then."""
        save_weights(self._folder.files, self._network)
        self._folder.replace()

    def save_first_weights(self) -> None:
        """Write weights to look at, if there are none yet, nor a network that measured ones are to replace."""
        if self.progress.best_loss is None and not self._folder.replaces_another:
            save_weights(self._folder.files, self._network)
