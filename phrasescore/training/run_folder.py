"""The life of a model folder in which a network is trained: who may use it, what is kept, how a run begins."""

from __future__ import annotations

import shutil
import weakref
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from phrasescore.errors import UserError, naming
from phrasescore.files import STANDARD_STREAM, lock_file, make_folder, real_path, require_folder
from phrasescore.model_files import CONFIG, WEIGHTS
from phrasescore.model_folder import REPLACEMENT, TRAINING_STATE, model_kind, network_file
from phrasescore.training.checkpoint import CHECKPOINT, open_checkpoint
from phrasescore.training.ranks import ALONE, HANDED_ON, Ranks

LOCK = "lock"
_RESTARTED = "restarted"


class RunFolder:
    """A model folder that a run has for itself until `release` is called, or nobody holds it any more.

    A run that is started over where a network lies lives in a folder of its own, `training-state/restarted`, until it
    has weights. Then all of its files take the place of the old ones: renaming that folder decides it, once and for
    all, and who reads the network meanwhile, or after a kill, looks there first (`model_folder.network_file`).
    """

    def __init__(self, path: Path, *, is_taken: bool = False) -> None:
        """Take the folder, unless the first rank of the run has taken it.

        Raises:
            UserError: another run has it.
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
        """Whether there is a network in whose place that of the run is still to come."""
        return self._restarted.exists()

    @property
    def files(self) -> Path:
        """Where the files of the run lie: description, weights, metrics and state."""
        return self._restarted if self.replaces_another else self.path

    @property
    def checkpoint(self) -> Path:
        """Where the state of the run lies."""
        return self.files / TRAINING_STATE / CHECKPOINT

    def take_up(self) -> None:
        """Finish what a kill has interrupted: a replacement that was decided, the beginning of another run, reading.

        A run that was to replace another one and has learnt nothing yet is gone then, and that other one decides what
        may go on in the folder.
        """
        for file in (self.path / TRAINING_STATE).glob(f".{HANDED_ON}*.tmp"):
            file.unlink(missing_ok=True)
        self._move()
        if self.replaces_another and not self._has_learnt():
            shutil.rmtree(self._restarted)

    def _has_learnt(self) -> bool:
        """Whether the run has made an update; a damaged state counts, for who resumes it tells of that."""
        if not self.checkpoint.exists():
            return False
        try:
            with open_checkpoint(self.checkpoint) as checkpoint:
                return checkpoint.progress.update > 0
        except UserError:
            return True

    def start_over(self) -> None:
        """Make room for a new run, and leave the network that is there as it is."""
        shutil.rmtree(self._restarted, ignore_errors=True)
        if (self.path / WEIGHTS).exists():
            (self._restarted / TRAINING_STATE).mkdir(parents=True)

    def replace(self) -> None:
        """Let the network of the run, which has weights now, take the place of the one before."""
        if self.replaces_another:
            self._restarted.rename(self.path / REPLACEMENT)
            self._move()

    def _move(self) -> None:
        """Move the files of a replacement to their places."""
        replacement = self.path / REPLACEMENT
        for file in [path for path in replacement.rglob("*") if path.is_file()]:
            file.replace(self.path / file.relative_to(replacement))
        shutil.rmtree(replacement, ignore_errors=True)


@contextmanager
def run_folder(folder: Path, restart: bool, kind: str, ranks: Ranks = ALONE) -> Iterator[RunFolder]:
    """Make a model folder for a run, or check that the one there may be used for it, and keep others out.

    The first rank does so, and the others wait for it.

    Where the run does not begin, the lock is released and nothing stays of a folder that was not there or was empty;
    else the lock is that of the trainer.

    Raises:
        UserError: it cannot be made, is no model folder, or holds a network of another kind or weights without the
            state of their training, or another run is training in it.
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
        # A run that was to replace the network, and is gone now, had a state, too.
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
    """Check that the training of a network that is there can go on, unless it is to be replaced.

    Raises:
        UserError: there is no state of it.
    """
    if not restart and network_file(folder, WEIGHTS).exists() and not any(folder.rglob(CHECKPOINT)):
        raise UserError(
            f"{folder}: holds a network but not the state of its training; give another folder, or --restart "
            "to replace it"
        )


def places(files: Mapping[str, str | Path | None]) -> dict[str, str | None]:
    """Return where some files are found from any folder, for the description of a model; `-` stays what it is."""
    return {name: None if path is None else _place(path) for name, path in files.items()}


def _place(path: str | Path) -> str:
    return STANDARD_STREAM if str(path) == STANDARD_STREAM else str(real_path(path))
