"""The model folder of a training run: check and lock it."""

from __future__ import annotations

import shutil
import weakref
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from phrasescore.errors import UserError, naming, spelled
from phrasescore.files import STANDARD_STREAM, lock_file, make_folder, real_path, require_folder
from phrasescore.model_files import CONFIG, METRICS, TRAINING_STATE, WEIGHTS, model_kind
from phrasescore.training.ranks import ALONE, Ranks

_CHECKPOINT, _LOCK = "checkpoint.safetensors", "lock"


class RunFolder:
    """A model folder locked for one run, until `release` is called or the object is garbage-collected."""

    def __init__(self, path: Path, *, is_taken: bool = False) -> None:
        """Lock the folder, unless the first rank of the run has locked it."""
        self.path = path
        self.checkpoint, self.metrics = path / TRAINING_STATE / _CHECKPOINT, path / METRICS
        self.release: Callable[[], object] = lambda: None
        if not is_taken:
            refusal = f"{path}: another run is training in this folder; wait for it or give another"
            self.release = weakref.finalize(self, lock_file(path / TRAINING_STATE / _LOCK, refusal).close)

    def clear(self) -> None:
        """Remove an earlier run. Without its checkpoint, a kill leaves its network, or a folder for a new run."""
        for file in (self.checkpoint, self.path / WEIGHTS, self.metrics):
            file.unlink(missing_ok=True)


@contextmanager
def run_folder(folder: Path, restart: bool, kind: str, ranks: Ranks = ALONE) -> Iterator[RunFolder]:
    """Create or check the model folder of a run, and lock it.

    The first rank does this while the others wait. If the block raises, the lock is released and a folder that was new
    or empty is restored. Otherwise the trainer holds the lock.
    """
    if not ranks.is_first:
        ranks.wait()
        yield RunFolder(folder, is_taken=True)
        return
    require_folder(folder)
    was_there, is_new = folder.exists(), not folder.exists() or not any(folder.iterdir())
    if not is_new:
        _check(folder, restart, kind)
    state = folder / TRAINING_STATE
    with naming({state: folder}):
        make_folder(state)
    run = RunFolder(folder)
    try:
        ranks.wait()
        yield run
    except BaseException:
        run.release()
        if is_new:
            shutil.rmtree(folder, ignore_errors=True)
            if was_there:
                folder.mkdir(exist_ok=True)
        raise


def _check(folder: Path, restart: bool, kind: str) -> None:
    """Check that a folder with files may hold this run."""
    if not (folder / CONFIG).exists() and not (folder / TRAINING_STATE).exists():
        raise UserError(f"{folder}: is not empty and holds no model; give a new folder")
    if (folder / CONFIG).exists() and model_kind(folder) != kind:
        raise UserError(f"{folder}: holds a network of the kind {model_kind(folder)}; give another folder")
    if not restart and (folder / WEIGHTS).exists() and not (folder / TRAINING_STATE / _CHECKPOINT).exists():
        raise UserError(
            f"{folder}: holds a network but not the state of its training; give another folder, or "
            f"{spelled('restart')} to replace it"
        )


def absolute_paths(files: Mapping[str, str | Path | None]) -> dict[str, str | None]:
    """Return absolute paths for the description of a model; `-` is kept."""
    return {
        name: None if path is None else STANDARD_STREAM if str(path) == STANDARD_STREAM else str(real_path(path))
        for name, path in files.items()
    }
