"""The life of a model folder in which a network is trained: who may use it, what is kept, how a run begins."""

from __future__ import annotations

import json
import shutil
import weakref
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

from phrasescore.configuration import Section
from phrasescore.errors import UserError
from phrasescore.files import STANDARD_STREAM, lock_file, real_path
from phrasescore.model_folder import CONFIG, TRAINING_STATE, WEIGHTS, network_kind
from phrasescore.plugins import loaded_plugins
from phrasescore.training.checkpoint import CHECKPOINT
from phrasescore.training.config import BUDGET

if TYPE_CHECKING:
    from phrasescore.training.loop import Trainer

LOCK = "lock"
_MAY_CHANGE = BUDGET | {"patience", "bleu_sentences", "source_corpus", "target_corpus"}
"""What may be different when a run is resumed. Of a corpus that is its name: the vocabularies tell what it holds."""


class FolderLock:
    """Keeps other runs out of a model folder until `release` is called, or nobody holds it any more."""

    def __init__(self, folder: Path) -> None:
        """Take the lock.

        Raises:
            UserError: another run holds it.
        """
        refusal = f"{folder}: another run is training in this folder; wait for it or give another"
        self.release = weakref.finalize(self, lock_file(folder / TRAINING_STATE / LOCK, refusal).close)


@contextmanager
def run_folder(folder: Path, restart: bool, kind: str) -> Iterator[FolderLock]:
    """Make a model folder for a run, or check that the one there may be used for it, and keep others out.

    Where the run does not begin, the lock is released and nothing stays of a folder that was not there or was empty;
    else the lock is that of the trainer.

    Raises:
        UserError: it cannot be made, is no model folder, or holds a network of another kind or weights without the
            state of their training, or another run is training in it.
    """
    _check_folder(folder, restart, kind)
    was_there, state = folder.exists(), folder / TRAINING_STATE
    try:
        state.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UserError(f"{folder}: cannot be made ({error.strerror}); check the folder and its rights") from error
    lock = FolderLock(folder)
    is_new = [path.name for path in folder.iterdir()] == [TRAINING_STATE] and not (state / CHECKPOINT).exists()
    try:
        yield lock
    except BaseException:
        if is_new:
            shutil.rmtree(folder, ignore_errors=True)
            if was_there:
                folder.mkdir(exist_ok=True)
        lock.release()
        raise


def _check_folder(folder: Path, restart: bool, kind: str) -> None:
    state = folder / TRAINING_STATE
    if folder.exists() and not folder.is_dir():
        raise UserError(f"{folder}: is a file; give the name of a folder")
    if folder.exists() and any(folder.iterdir()) and not ((folder / CONFIG).exists() or state.exists()):
        raise UserError(f"{folder}: is not empty and holds no model; give a new folder")
    if (folder / CONFIG).exists() and network_kind(folder) != kind:
        raise UserError(f"{folder}: holds a network of the kind {network_kind(folder)}; give another folder")
    if not restart and (folder / WEIGHTS).exists() and not (state / CHECKPOINT).exists():
        raise UserError(
            f"{folder}: holds a network but not the state of its training; give another folder, or --restart "
            "to replace it"
        )


def fixed_values(*sections: Section) -> dict[str, Any]:
    """Return what of some sections, and of the plugins, must be the same when a run is resumed, as JSON values."""
    values = {item.name: getattr(section, item.name) for section in sections for item in fields(section)}
    fixed = {key: value for key, value in values.items() if key not in _MAY_CHANGE}
    if plugins := loaded_plugins():
        fixed["plugins"] = sorted(plugins.values())
    return dict(json.loads(json.dumps(fixed, default=str)))


def begin(trainer: Trainer[Any], describe: Callable[[], None], restart: bool) -> None:
    """Resume the run in a trainer's folder, or start one there.

    Args:
        trainer: a trainer at its start.
        describe: writes the description of the model, which says how it is trained now.
        restart: start over even if the folder holds a run.

    Raises:
        UserError: the folder holds a run with other settings or data, or a damaged one.
    """
    if restart:
        (trainer.folder / TRAINING_STATE / CHECKPOINT).unlink(missing_ok=True)
        (trainer.folder / WEIGHTS).unlink(missing_ok=True)
    is_resumed = trainer.resume()
    describe()
    if not is_resumed:
        trainer.save_checkpoint()


def places(files: Mapping[str, str | Path | None]) -> dict[str, str | None]:
    """Return where some files are found from any folder, for the description of a model; `-` stays what it is."""
    return {name: None if path is None else _place(path) for name, path in files.items()}


def _place(path: str | Path) -> str:
    return STANDARD_STREAM if str(path) == STANDARD_STREAM else str(real_path(path))
