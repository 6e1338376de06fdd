"""How a training begins: a trainer at its start, or where an earlier run in the folder stopped."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from phrasescore.text import Say, Show, silently, unseen
from phrasescore.training.loop import Trainer
from phrasescore.training.ranks import ALONE, Ranks
from phrasescore.training.run_folder import RunFolder
from phrasescore.training.task import TaskT


@dataclass(frozen=True)
class Description:
    """What the folder of a run says of it."""

    fixed: dict[str, Any]
    """What must be the same for the run to be resumed, as JSON values."""
    facts: dict[str, Any]
    """Of the data: files, digests, counts."""
    save: Callable[[Path, dict[str, Any]], None]
    """Writes the description of the network into a folder, with such facts and the settings of the training."""


@dataclass(frozen=True)
class Start:
    """How a run begins, and who is told of it."""

    restart: bool = False
    """Whether to start over even if the folder holds a run."""
    show: Show = unseen
    """Shown how much of the data is read."""
    say: Say = silently
    """Told of lines to learn from that are not UTF-8."""
    ranks: Ranks = ALONE
    """The processes that train together."""

    def trainer(self, home: RunFolder, task: TaskT, description: Description) -> Trainer[TaskT]:
        """Return a trainer that is ready to go.

        Args:
            home: the model folder.
            task: what to train.
            description: what the folder is to say of it.

        Raises:
            UsageError: nothing would end the run, or a schedule would not do what it says.
            UserError: the folder holds a run with other settings or data, or a damaged one.
        """
        trainer = Trainer(home, task, description.fixed, self.ranks)

        def describe(place: Path) -> None:
            training = {**description.facts, **asdict(task.config), "warmup_updates": trainer.budget.warmup}
            description.save(place, {**training, "device": str(task.device)})

        trainer.begin(describe, self.restart)
        return trainer


QUIET_START = Start()
"""Goes on with the run that is in the folder, if there is one; alone, and tells nobody."""
