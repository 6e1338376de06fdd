"""A system folder: `moses.ini` beside the tables and the language model that it names.

    system/
      moses.ini  phrase-table.gz  reordering-table.wbe-msd-bidirectional-fe.gz  lm.fr.arpa  lex.e2f  lex.f2e
      preparation.json  (truecase.en truecase.fr)  build.json
      corpus/  train.en train.fr train.align    the prepared text that all was made from
      (validation/  phrase-table.gz and what belongs to it: phrase pairs of other sentences, for `phrasescore train`)
      (.building/   what a build that goes on, was killed, or failed with a message that names a file of it has made so
                  far; the next one removes it)

Every file is in Moses' own format, so what one toolkit builds the other can tune and decode.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from moses_integration.building.phrase_scores import PHRASE_TABLE
from moses_integration.building.reordering import REORDERING_TABLE
from phrasescore.documents import read_json
from phrasescore.errors import UserError, naming
from phrasescore.files import lock_file, make_folder, real_path, require_folder

CORPUS = "corpus"
VALIDATION = "validation"
_BUILDING = ".building"
_LOCK = "lock"
INI = "moses.ini"
REPORT = "build.json"
_OF_SYSTEM = {CORPUS: ("train.*", f"{VALIDATION}.*"), VALIDATION: (PHRASE_TABLE, REORDERING_TABLE, "lex.*")}
"""What a system has in its folders, and the next one in its place need not have."""


def require_own(folder: Path) -> None:
    """Check that a folder is new, empty, or that of an earlier or interrupted build.

    Raises:
        UserError: it is not; its files may be the user's own.
    """
    require_folder(folder)
    if not folder.exists() or not any(folder.iterdir()) or (folder / _BUILDING).is_dir() or _has_report(folder):
        return
    raise UserError(f"{folder}: has files but no system that `build` made; give a new or empty folder")


def require_outside(folder: Path, *inputs: Path | None) -> None:
    """Check that no input lies where an interrupted build left off.

    Raises:
        UserError: one does, and would be removed.
    """
    for path in inputs:
        if path is not None and real_path(path).is_relative_to(real_path(folder / _BUILDING)):
            raise UserError(f"{path}: lies where an interrupted build left off, which is removed; move it elsewhere")


def _has_report(folder: Path) -> bool:
    """Whether a folder has our build.json; other programs use this name, too."""
    try:
        report = read_json(folder / REPORT, "build again")
    except UserError:
        return False
    return {"versions", "settings", "text"} <= report.keys()


@contextmanager
def new_system(folder: Path) -> Iterator[Path]:
    """Yield a folder for a new system inside of a system folder, and remove it in the end.

    It is kept if the message of a failure names a file in it, or if the process is killed. What it holds then and its
    existence tell the next build that the system folder is one.

    Raises:
        UserError: it cannot be made, another build is at work in it, or its hidden folder is not ours.
    """
    is_new, new = not folder.exists(), folder / _BUILDING
    if new.is_symlink() or (new.exists() and new.stat().st_uid != os.geteuid()):
        raise UserError(f"{new}: is a link, or another user's, and would be emptied; remove it")
    with naming({new: folder}):
        make_folder(new)
    with lock_file(new / _LOCK, f"{folder}: another build is at work in it; wait for it or give another folder"):
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
    """Let the files of a new system take the place of an earlier one's; only a complete system has a moses.ini."""
    (folder / INI).unlink(missing_ok=True)
    for name, patterns in _OF_SYSTEM.items():
        for path in [path for pattern in patterns for path in (folder / name).glob(pattern)]:
            path.unlink()
        with suppress(OSError):
            (folder / name).rmdir()
    # The report first: by it the next build knows the folder, if this one is killed now.
    (new / REPORT).replace(folder / REPORT)
    for path in [path for path in new.rglob("*") if path.is_file() and path != new / _LOCK]:
        place = folder / path.relative_to(new)
        place.parent.mkdir(exist_ok=True)
        path.replace(place)
