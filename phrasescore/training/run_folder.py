"""Manage the model folder of a training run: locking, replacement of an earlier network, recovery after a kill."""

from __future__ import annotations

import shutil
import weakref
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from phrasescore.errors import UserError, naming, spelled
from phrasescore.files import STANDARD_STREAM, lock_file, make_folder, real_path, require_folder
from phrasescore.model_files import CONFIG, REPLACEMENT, TRAINING_STATE, WEIGHTS, model_kind, network_file
from phrasescore.training.checkpoint import CHECKPOINT, open_checkpoint
from phrasescore.training.ranks import ALONE, HANDED_ON, Ranks

LOCK = "lock"
_RESTARTED = "restarted"


class RunFolder:
    """A model folder locked for one run, until `release` is called or the object is garbage-collected.

    With --restart in a folder that holds a network, the new run uses the subfolder `training-state/restarted` until it
    has weights. Its files then replace the old ones. Renaming the subfolder commits the replacement atomically: until
    all files are moved, readers of the network look there first (`model_files.network_file`).
    """

    def __init__(self, path: Path, *, is_taken: bool = False) -> None:
        """Lock the folder, unless the first rank of the run has locked it.

        Raises:
            UserError: another run has locked the folder.
        """
        self.path = path
        self.release: Callable[[], object] = lambda: None
        if is_taken:
            return
        refusal = f"{path}: another run is training in this folder; wait for it or give another"
        self.release = weakref.finalize(self, lock_file(path / TRAINING_STATE / LOCK, refusal).close)

    @property
    def _restarted(self) -> Path:
        return self.path / TRAINING_STATE / _RESTARTED

    @property
    def replaces_another(self) -> bool:
        """Whether the folder holds an earlier network that the run has not replaced yet."""
        return self._restarted.exists()

    @property
    def files(self) -> Path:
        """Folder of the files of the run: description, weights, metrics and state."""
        return self._restarted if self.replaces_another else self.path

    @property
    def checkpoint(self) -> Path:
        """Path of the checkpoint of the run."""
        return self.files / TRAINING_STATE / CHECKPOINT

    def take_up(self) -> None:
        """Clean up after a killed run: finish a committed replacement, and delete temporary files.

        A restarted run without any update is deleted, so that the earlier run can be resumed.
        """
        for file in (self.path / TRAINING_STATE).glob(f".{HANDED_ON}*.tmp"):
            file.unlink(missing_ok=True)
        self._move()
        if self.replaces_another and not self._has_learnt():
            shutil.rmtree(self._restarted)

    def _has_learnt(self) -> bool:
        """Return whether the run has made an update. A damaged checkpoint counts: resuming reports the damage."""
        if not self.checkpoint.exists():
            return False
        try:
            with open_checkpoint(self.checkpoint) as checkpoint:
                return checkpoint.progress.update > 0
        except UserError:
            return True

    def start_over(self) -> None:
        """Prepare the folder for a new run, and keep an earlier network until it is replaced."""
        shutil.rmtree(self._restarted, ignore_errors=True)
        if (self.path / WEIGHTS).exists():
            (self._restarted / TRAINING_STATE).mkdir(parents=True)

    def replace(self) -> None:
        """Replace the earlier network by the network of the run, which has weights now."""
        if self.replaces_another:
            self._restarted.rename(self.path / REPLACEMENT)
            self._move()

    def _move(self) -> None:
        replacement = self.path / REPLACEMENT
        for file in [path for path in replacement.rglob("*") if path.is_file()]:
            file.replace(self.path / file.relative_to(replacement))
        shutil.rmtree(replacement, ignore_errors=True)


@contextmanager
def run_folder(folder: Path, restart: bool, kind: str, ranks: Ranks = ALONE) -> Iterator[RunFolder]:
    """Create or check the model folder of a run, and lock it.

    The first rank does this while the others wait. If the block raises, the lock is released and a folder that was new
    or empty is restored. Otherwise the trainer holds the lock.

    Raises:
        UserError: the folder cannot be created, is not a model folder, holds a network of another kind or weights
            without a checkpoint, or is used by another run.
    """
    if not ranks.is_first:
        ranks.wait()
        yield RunFolder(folder, is_taken=True)
        return
    _check_folder(folder, restart, kind)
    was_there, state = folder.exists(), folder / TRAINING_STATE
    with naming({state: folder}):
        make_folder(state)
    run = RunFolder(folder)
    is_new = [path.name for path in folder.iterdir()] == [TRAINING_STATE] and not (state / CHECKPOINT).exists()
    run.take_up()
    try:
        # Check again: `take_up` may have deleted a restarted run, which also had a checkpoint.
        _require_state(folder, restart)
        ranks.wait()
        yield run
    except BaseException:
        if is_new:
            shutil.rmtree(folder, ignore_errors=True)
            if was_there:
                folder.mkdir(exist_ok=True)
        else:
            run.take_up()
        run.release()
        raise


def _check_folder(folder: Path, restart: bool, kind: str) -> None:
    state = folder / TRAINING_STATE
    require_folder(folder)
    if folder.exists() and any(folder.iterdir()) and not (network_file(folder, CONFIG).exists() or state.exists()):
        raise UserError(f"{folder}: is not empty and holds no model; give a new folder")
    if network_file(folder, CONFIG).exists() and model_kind(folder) != kind:
        raise UserError(f"{folder}: holds a network of the kind {model_kind(folder)}; give another folder")
    _require_state(folder, restart)


def _require_state(folder: Path, restart: bool) -> None:
    """Check that a network in the folder has a checkpoint, unless it is to be replaced.

    Raises:
        UserError: there is no checkpoint.
    """
    if not restart and network_file(folder, WEIGHTS).exists() and not any(folder.rglob(CHECKPOINT)):
        raise UserError(
            f"{folder}: holds a network but not the state of its training; give another folder, or "
            f"{spelled('restart')} to replace it"
        )


def places(files: Mapping[str, str | Path | None]) -> dict[str, str | None]:
    """Return absolute paths for the description of a model; `-` is kept."""
    return {name: None if path is None else _place(path) for name, path in files.items()}


def _place(path: str | Path) -> str:
    return STANDARD_STREAM if str(path) == STANDARD_STREAM else str(real_path(path))
