"""The moses.ini of a system that is not tuned yet."""

from __future__ import annotations

from pathlib import Path

from moses_integration.building.system_folder import INI
from moses_integration.building.translation_tables import PHRASE_TABLE, REORDERING_TABLE, REORDERING_TYPE
from moses_integration.ini import MosesIni

# Weights and layout are those of train-model.perl, step 9.
_REORDERING = (
    "LexicalReordering name=LexicalReordering0 num-features=6 type={kind}-allff "
    "input-factor=0 output-factor=0 path={path}"
)
_INI = """\
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
PhraseDictionaryMemory name=TranslationModel0 num-features=4 path={table} input-factor=0 output-factor=0
{reordering}
Distortion
KENLM name=LM0 factor=0 order={order}

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

    Args:
        folder: has the tables, under their usual names.
        language_model: a file of that folder, or an absolute path.
        order: of the language model.

    Raises:
        UserError: the folder cannot be written, or the path has a space.
    """
    text = _INI.format(
        table=PHRASE_TABLE,
        reordering=_REORDERING.format(kind=REORDERING_TYPE, path=REORDERING_TABLE),
        order=order,
    )
    ini = MosesIni(text.splitlines(keepends=True), str(folder / INI), folder.resolve())
    ini.set_argument("LM0", "path", language_model)
    ini.write(folder / INI)
    return MosesIni.read(folder / INI)


def has_start_weights(ini: MosesIni) -> bool:
    """Whether a moses.ini still has the weights of an untuned system."""
    return ini.weights() == MosesIni(_INI.splitlines(keepends=True)).weights()
