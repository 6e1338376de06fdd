"""The folder for what a run leaves behind."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import mkdtemp

from phrasescore.errors import UserError
from phrasescore.files import lock_file, make_folder, require_folder

_WORK_MARK = ".phrasescore-work"
"""A file in the folder of --work: what else is there is ours."""


@contextmanager
def work_folder(given: Path | None) -> Iterator[Path]:
    """Yield the folder for what a run leaves behind: the one given, or one that is deleted afterwards.

    It is kept when a step of Moses fails, for the message names a log in it. One that was made for a run that failed
    before it wrote anything is removed.

    Raises:
        UserError: the one given cannot be made, another run is at work in it, or it has files that no earlier run
            left; what this run writes or removes could be theirs.
    """
    from moses_integration.toolkits.installation import StepFailure

    if given is not None:
        require_folder(given)
        mark, is_new = given / _WORK_MARK, not given.exists()
        if given.exists() and any(given.iterdir()) and not mark.exists():
            raise UserError(f"{given}: has files that no earlier run left; give a new or empty folder")
        make_folder(given)
        with lock_file(mark, f"{given}: another run is at work in it; wait for it or give another folder"):
            try:
                yield given
            except BaseException:
                if is_new and [*given.iterdir()] == [mark]:
                    shutil.rmtree(given)
                raise
        return
    folder = Path(mkdtemp(prefix="phrasescore."))
    try:
        yield folder
    except StepFailure:
        raise
    except BaseException:
        shutil.rmtree(folder, ignore_errors=True)
        raise
    else:
        shutil.rmtree(folder)
