"""N-gram models, read by KenLM."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING
from weakref import WeakValueDictionary

from phrasescore.errors import UserError

if TYPE_CHECKING:
    import kenlm

UNKNOWN = "<unk>"

_in_use: WeakValueDictionary[tuple[Path, int, int, int], kenlm.Model] = WeakValueDictionary()
"""Models by file, its number, size and time: a neural language model asks for the same one as the decoder."""


def load_kenlm(path: Path) -> kenlm.Model:
    """Load an ARPA file or a KenLM binary; a file that is in use in this process already is not loaded again.

    Raises:
        UserError: the file is missing or KenLM cannot read it, or the `kenlm` module is not installed.
    """
    try:
        import kenlm
    except ImportError as error:
        raise UserError(
            f"{path}: reading n-gram models needs the module `kenlm`; pip install 'phrasescore[smt]'"
        ) from error
    if not path.exists():
        raise UserError(f"{path}: is not there; give an ARPA file or a KenLM binary")
    status = path.stat()
    file = (path.resolve(), status.st_ino, status.st_size, status.st_mtime_ns)
    if file in _in_use:
        return _in_use[file]

    class Model(kenlm.Model):  # type: ignore[misc]  # kenlm has no types
        """One that can be referred to weakly."""

    config = kenlm.Config()
    config.show_progress = False
    config.arpa_complain = kenlm.ARPALoadComplain.NONE
    try:
        model = _in_use[file] = Model(str(path), config)
        return model
    except (OSError, UnicodeDecodeError) as error:
        # It may quote what it read, in whatever encoding that is.
        said = error.object.decode("utf-8", "backslashreplace") if isinstance(error, UnicodeDecodeError) else str(error)
        # Before the cause stands which function of KenLM threw what.
        cause = re.split(r" threw \w+(?: because `[^']*')?\.\s", said)[-1].removesuffix(")")
        raise UserError(f"{path}: KenLM cannot read it ({cause}); give an ARPA file or a KenLM binary") from error


def as_text(word: bytes) -> str:
    """Return a word as KenLM's module wants it, which knows text only: bytes that are not UTF-8 are an unknown word."""
    try:
        return word.decode()
    except UnicodeDecodeError:
        return UNKNOWN
