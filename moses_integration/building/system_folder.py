"""A system folder: `moses.ini` beside the tables and the language model that it names.

    system/
      moses.ini  phrase-table.gz  reordering-table.wbe-msd-bidirectional-fe.gz  lm.fr.arpa  lex.e2f  lex.f2e
      preparation.json  (truecase.en truecase.fr)  build.json
      corpus/  train.en train.fr train.align    the prepared text
      (validation/  phrase-table.gz etc.: phrase pairs of held-out sentences, for `phrasescore train`)
      (.building/   the files of a build that is running, was killed, or failed with a message that names one of them;
                  the next build removes them)

All files are in Moses' formats, so either toolkit can tune and decode with a system.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from moses_integration.building.translation_tables import PHRASE_TABLE, REORDERING_TABLE
from phrasescore.errors import UserError, naming
from phrasescore.files import lock_file, make_folder, real_path, require_folder
from phrasescore.files.documents import read_json

CORPUS = "corpus"
VALIDATION = "validation"
_BUILDING = ".building"
_LOCK = "lock"
INI = "moses.ini"
REPORT = "build.json"
_OWN_FILES = {CORPUS: ("train.*", f"{VALIDATION}.*"), VALIDATION: (PHRASE_TABLE, REORDERING_TABLE, "lex.*")}
"""The files of an earlier system in subfolders, which the next one may not replace."""


def _require_build_folder(folder: Path) -> None:
    """Protect a user's own files: a folder must be new, empty, or that of an earlier or interrupted build."""
    require_folder(folder)
    if not folder.exists() or not any(folder.iterdir()) or (folder / _BUILDING).is_dir() or _has_report(folder):
        return
    raise UserError(f"{folder}: has files but no system that `build` made; give a new or empty folder")


def _require_outside(folder: Path, inputs: Iterable[Path | None]) -> None:
    for path in inputs:
        if path is not None and real_path(path).is_relative_to(real_path(folder / _BUILDING)):
            raise UserError(f"{path}: is a file of an interrupted build, which a new build removes; move it elsewhere")


def _has_report(folder: Path) -> bool:
    """Whether a folder has the report of a build, as other programs also write files of this name."""
    try:
        report = read_json(folder / REPORT, "build again")
    except UserError:
        return False
    return {"versions", "settings", "text"} <= report.keys()


@contextmanager
def new_system(folder: Path, *inputs: Path | None) -> Iterator[Path]:
    """Yield a folder for a new system inside of a system folder, and remove it at the end.

    It is kept if the process is killed or the message of a failure names a file in it. Its existence then tells the
    next build that the folder may be overwritten.

    Raises:
        UserError: the folder is not that of a build, another build is running in it, or an input would be removed.
    """
    _require_build_folder(folder)
    _require_outside(folder, inputs)
    is_new, new = not folder.exists(), folder / _BUILDING
    if new.is_symlink() or (new.exists() and new.stat().st_uid != os.geteuid()):
        raise UserError(f"{new}: is a link or belongs to another user, and would be emptied; remove it")
    with naming({new: folder}):
        make_folder(new)
    with lock_file(new / _LOCK, f"{folder}: another build is running in it; wait for it or give another folder"):
        for path in new.iterdir():
            if path.is_dir() and not path.is_symlink():
                shutil.rmtree(path)
            elif path.name != _LOCK:
                path.unlink()
        try:
            yield new
        except BaseException as error:
            if not any(path.is_file() and str(path) in str(error) for path in new.rglob("*")):
                shutil.rmtree(new, ignore_errors=True)
                if is_new:
                    with suppress(OSError):
                        folder.rmdir()
            raise
        shutil.rmtree(new)


def replace_system(folder: Path, new: Path) -> None:
    """Replace the files of an earlier system by those of a new one; only a complete system has a moses.ini."""
    (folder / INI).unlink(missing_ok=True)
    for name, patterns in _OWN_FILES.items():
        for path in [path for pattern in patterns for path in (folder / name).glob(pattern)]:
            path.unlink()
        with suppress(OSError):
            (folder / name).rmdir()
    # The report first: it lets the next build recognise the folder, if this one is killed now.
    (new / REPORT).replace(folder / REPORT)
    for path in [path for path in new.rglob("*") if path.is_file() and path != new / _LOCK]:
        final = folder / path.relative_to(new)
        final.parent.mkdir(exist_ok=True)
        path.replace(final)
