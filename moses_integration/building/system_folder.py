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

import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from moses_integration.building.preparation import PREPARATION
from moses_integration.building.translation_tables import PHRASE_TABLE, REORDERING_TABLE, REORDERING_TYPE
from moses_integration.ini import MosesIni
from phrasescore.errors import UserError, naming
from phrasescore.files import lock_file, make_folder, real_path, require_folder

CORPUS = "corpus"
VALIDATION = "validation"
INI = "moses.ini"
REPORT = "build.json"
_BUILDING = ".building"
_LOCK = "lock"
_IN_SUBFOLDERS = (
    f"{CORPUS}/train.*",
    f"{CORPUS}/{VALIDATION}.*",
    f"{VALIDATION}/{PHRASE_TABLE}",
    f"{VALIDATION}/{REORDERING_TABLE}",
    f"{VALIDATION}/lex.*",
)
"""The files of an earlier system that the next one may not replace."""

# Weights and layout are those of train-model.perl, step 9.
_INI = f"""\
# Written by phrasescore-smt build. These weights are a start only: tune them.

[input-factors]
0

[mapping]
0 T 0

[distortion-limit]
6

[feature]
UnknownWordPenalty
WordPenalty
PhrasePenalty
PhraseDictionaryMemory name=TranslationModel0 num-features=4 path={PHRASE_TABLE} input-factor=0 output-factor=0
LexicalReordering name=LexicalReordering0 num-features=6 type={REORDERING_TYPE}-allff \
input-factor=0 output-factor=0 path={REORDERING_TABLE}
Distortion
KENLM name=LM0 factor=0 order=5

[weight]
UnknownWordPenalty0= 1
WordPenalty0= -1
PhrasePenalty0= 0.2
TranslationModel0= 0.2 0.2 0.2 0.2
LexicalReordering0= 0.3 0.3 0.3 0.3 0.3 0.3
Distortion0= 0.3
LM0= 0.5
"""


def write_initial_ini(folder: Path, language_model: str, order: int) -> MosesIni:
    """Write the moses.ini of a system folder, with the weights of train-model.perl, and return it.

    `language_model` is a file of that folder, or an absolute path.
    """
    ini = MosesIni(_INI.splitlines(keepends=True), str(folder / INI), folder.resolve())
    ini.set_argument("LM0", "order", str(order))
    ini.set_argument("LM0", "path", language_model)
    ini.write(folder / INI)
    return MosesIni.read(folder / INI)


def has_start_weights(ini: MosesIni) -> bool:
    """Whether a moses.ini still has the weights of an untuned system."""
    return ini.weights() == MosesIni(_INI.splitlines(keepends=True)).weights()


@contextmanager
def new_system(folder: Path, *inputs: Path | None) -> Iterator[Path]:
    """Yield a folder for a new system inside of a system folder, and remove it at the end.

    It is kept if the process is killed or the message of a failure names a file in it. The next build then recognises
    the system folder by it.
    """
    require_folder(folder)
    is_new, new = not folder.exists(), folder / _BUILDING
    is_system = new.is_dir() or all((folder / name).is_file() for name in (REPORT, PREPARATION))
    if not is_new and not is_system and any(folder.iterdir()):
        raise UserError(f"{folder}: has files but no system that `build` made; give a new or empty folder")
    # The folder is emptied below.
    if new.is_symlink():
        raise UserError(f"{new}: is a link; remove it")
    for path in inputs:
        if path is not None and real_path(path).is_relative_to(real_path(new)):
            raise UserError(f"{path}: is a file of an interrupted build, which a new build removes; move it elsewhere")
    with naming({new: folder}):
        make_folder(new)
    with lock_file(new / _LOCK, f"{folder}: another build is running in it; wait for it or give another folder"):
        for path in new.iterdir():
            if path.is_dir():
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
    for path in [path for pattern in _IN_SUBFOLDERS for path in folder.glob(pattern)]:
        path.unlink()
    with suppress(OSError):
        (folder / VALIDATION).rmdir()
    for path in [path for path in new.rglob("*") if path.is_file() and path != new / _LOCK]:
        final = folder / path.relative_to(new)
        final.parent.mkdir(exist_ok=True)
        path.replace(final)
