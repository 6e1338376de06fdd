"""The folder for intermediate files and logs of a run."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import mkdtemp

from phrasescore.errors import UserError
from phrasescore.files import lock_file, make_folder, require_folder

_WORK_MARK = ".phrasescore-work"
"""A file that marks a folder of --work, whose files a run may replace or remove."""


@contextmanager
def work_folder(given: Path | None) -> Iterator[Path]:
    """Yield the given folder, locked against other runs; without one, a temporary folder, removed afterwards.

    The temporary folder is kept if a step of Moses fails, because the message names a log in it. A new given folder is
    removed if the run fails before it writes anything.
    """
    if given is None:
        with _temporary_folder() as folder:
            yield folder
        return
    require_folder(given)
    mark, is_new = given / _WORK_MARK, not given.exists()
    if not is_new and any(given.iterdir()) and not mark.exists():
        raise UserError(f"{given}: has files that no earlier run left; give a new or empty folder")
    make_folder(given)
    with lock_file(mark, f"{given}: another run is at work in it; wait for it or give another folder"):
        try:
            yield given
        except BaseException:
            if is_new and [*given.iterdir()] == [mark]:
                shutil.rmtree(given)
            raise


@contextmanager
def _temporary_folder() -> Iterator[Path]:
    from moses_integration.toolkits.installation import StepFailure

    folder, is_kept = Path(mkdtemp(prefix="phrasescore.")), False
    try:
        yield folder
    except StepFailure:
        is_kept = True
        raise
    finally:
        if not is_kept:
            shutil.rmtree(folder, ignore_errors=True)
