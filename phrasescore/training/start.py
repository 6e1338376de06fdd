"""Create a trainer that starts a new run or resumes an interrupted one."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from phrasescore.text import Log, ProgressCallback, no_log, no_progress
from phrasescore.training.loop import Trainer
from phrasescore.training.ranks import ALONE, Ranks
from phrasescore.training.run_folder import RunFolder
from phrasescore.training.task import TaskT


@dataclass(frozen=True)
class Description:
    """The description of a run for its folder."""

    fixed: dict[str, Any]
    """Fingerprint of the run, as JSON values; it must be equal for a run to be resumed."""
    facts: dict[str, Any]
    """Files, digests and counts of the data."""
    save: Callable[[Path, dict[str, Any]], None]
    """Writes the description of the network into a folder, with facts and training settings."""


@dataclass(frozen=True)
class Start:
    """How a run starts, and its callbacks."""

    restart: bool = False
    """Whether to start over even if the folder holds a run."""
    progress: ProgressCallback = no_progress
    """Callback for the progress of reading."""
    log: Log = no_log
    """Callback that reports lines that are not UTF-8."""
    ranks: Ranks = ALONE
    """The processes that train together."""

    def trainer(self, home: RunFolder, task: TaskT, description: Description) -> Trainer[TaskT]:
        """Return a trainer that is ready to train.

        Args:
            home: the model folder.
            task: the task to train.
            description: the description to write into the folder.

        Raises:
            UsageError: training would never end, or the schedule would have no effect.
            UserError: the folder holds a damaged run or a run with other settings or data.
        """
        trainer = Trainer(home, task, description.fixed, self.ranks)

        def describe(place: Path) -> None:
            training = {**description.facts, **asdict(task.config), "warmup_updates": trainer.budget.warmup}
            description.save(place, {**training, "device": str(task.device)})

        trainer.begin(describe, self.restart)
        return trainer


QUIET_START = Start()
"""Resumes a run if there is one, in a single process, without callbacks."""
