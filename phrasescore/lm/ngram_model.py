"""N-gram models, read by KenLM."""

from __future__ import annotations

import math
import os
import re
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryFile, gettempdir
from typing import TYPE_CHECKING
from weakref import WeakValueDictionary

import numpy as np
from numpy.typing import NDArray

from phrasescore.errors import UserError
from phrasescore.files import full_disk_told, open_input

if TYPE_CHECKING:
    import kenlm

UNKNOWN = "<unk>"
LN_10 = math.log(10)
"""What turns the logarithms of such models, to base 10, into natural ones."""

_BINARY = b"mmap lm "
_HEADER_BYTES = 1 << 16
_LEAST_NGRAM_BYTES = 4
"""A digit, a tab, a letter, a line feed."""
_MOST = 1.0
"""Above 0 by what coarse quantisation makes of a sum of weights; a probability of 10 is none."""
_LONGEST_CAUSE = 200

_in_use: WeakValueDictionary[tuple[Path, int, int, int], kenlm.Model] = WeakValueDictionary()
"""Models by file, its number, size and time: a neural language model asks for the same one as the decoder."""


def load_kenlm(path: Path) -> kenlm.Model:
    """Load an ARPA file, compressed or not, or a KenLM binary; one that is in use in this process is not loaded again.

    Raises:
        UserError: the file is missing or KenLM cannot read it, or the `kenlm` module is not installed.
    """
    try:
        import kenlm
    except ImportError as error:
        raise UserError(f"{path}: reading n-gram models needs the module `kenlm`; pip install ufal.kenlm") from error
    if not path.is_file():
        what = "is no file" if path.exists() else "is not there"
        raise UserError(f"{path}: {what}; give an ARPA file or a KenLM binary")
    status = path.stat()
    file = (path.resolve(), status.st_ino, status.st_size, status.st_mtime_ns)
    if file in _in_use:
        return _in_use[file]

    class Model(kenlm.Model):  # type: ignore[misc]  # kenlm has no types
        """One that can be referred to weakly."""

    config = kenlm.Config()
    config.show_progress = False
    config.arpa_complain = kenlm.ARPALoadComplain.NONE
    with _plain(path) as plain:
        _check_header(path, plain)
        # As bytes, for a name need not be UTF-8.
        name = os.fsencode(plain)
        try:
            with _without_messages():
                model = _in_use[file] = Model(name, config)
        except (OSError, UnicodeDecodeError) as error:
            raise UserError(_explained(path, name, error)) from error
    return model


def require_log_probs(log10_probs: NDArray[np.float64], path: Path) -> None:
    """Check what a model gives to words, as log10 p.

    KenLM refuses a file with numbers above 0, or that are none; but minus infinity passes, and back-off weights so
    large that a probability is none.

    Raises:
        UserError: a number is not finite, or far above 0.
    """
    if not ((log10_probs > -np.inf) & (log10_probs <= _MOST)).all():
        raise UserError(
            f"{path}: gives words log-probabilities that are infinite or above 0; mend it: write -99 for the logarithm "
            "of 0, and no back-off weights that make a probability more than 1"
        )


@contextmanager
def _without_messages() -> Iterator[None]:
    """Discard what is printed to standard error: KenLM has no setting against its line on a model without `<unk>`."""
    try:
        standard_error = os.dup(2)
    except OSError:
        # It is closed.
        yield
        return
    nowhere = os.open(os.devnull, os.O_WRONLY)
    try:
        os.dup2(nowhere, 2)
        yield
    finally:
        os.dup2(standard_error, 2)
        os.close(standard_error)
        os.close(nowhere)


@contextmanager
def _plain(path: Path) -> Iterator[Path]:
    """Yield the path of a file without compression; what had to be unpacked is gone behind."""
    with open_input(path) as source:
        if source.stream is source.raw:
            yield path
            return
        # It has no name, so that nothing is left of it when we are killed.
        with TemporaryFile() as unpacked:
            with full_disk_told(gettempdir()):
                shutil.copyfileobj(source.stream, unpacked, 1 << 20)
                unpacked.seek(0)
            yield Path(f"/dev/fd/{unpacked.fileno()}")


def _check_header(path: Path, plain: Path) -> None:
    """Check what KenLM trusts: that an ARPA file is text, and can hold the n-grams for which KenLM takes memory.

    Raises:
        UserError: it has NUL bytes, is too short, or a count is no number.
    """
    with plain.open("rb") as file:
        header, size = file.read(_HEADER_BYTES), os.fstat(file.fileno()).st_size
    if b"\0" in header and not header.startswith(_BINARY):
        raise UserError(f"{path}: has NUL bytes, which are in no ARPA file; convert it to UTF-8 or estimate it again")
    announced = highest = 0
    for match in re.finditer(rb"^ngram (\d+)=(.*)$", header.partition(b"\n\\1-grams:")[0], re.MULTILINE):
        order, count = match[1].decode(), match[2].strip()
        if not count.isdigit():
            raise UserError(f"{path}: the number of its {order}-grams is none; copy the file or estimate it again")
        announced += int(count[:20])
        highest = max(highest, int(order[:20]))
    if highest == 1:
        raise UserError(
            f"{path}: is a model of unigrams only, which KenLM does not read; estimate one of order 2 or more"
        )
    if announced * _LEAST_NGRAM_BYTES > size:
        raise UserError(
            f"{path}: announces {announced:,} n-grams, more than it can hold; copy the file or estimate it again"
        )


def _explained(path: Path, name: bytes, error: OSError | UnicodeDecodeError) -> str:
    """Return the sentence on a file that KenLM cannot read: where, and the cause that it gives."""
    # It may quote what it read, in whatever encoding that is.
    said = error.object.decode("utf-8", "backslashreplace") if isinstance(error, UnicodeDecodeError) else str(error)
    said = said.removeprefix(f"Cannot read model '{name!r}' (").removesuffix(")")
    # Before the cause stands which function of KenLM threw what and when, behind it advice and the place.
    cause = re.split(r" threw \w+(?: because `.*?')?\.\s", said, maxsplit=1, flags=re.DOTALL)[-1]
    place = re.search(r" Byte: (\d+)$", cause)
    cause = " ".join(re.split(r"\.\s\s| at byte \d+|\.? Byte: \d+$", cause)[0].split())[:_LONGEST_CAUSE]
    cause = "".join(one if one.isprintable() else one.encode("unicode_escape").decode("ascii") for one in cause)
    where = f"{path}: byte {place[1]}" if place else path
    # Some releases of Python drop a cause that is not UTF-8.
    given = f" ({cause})" if cause else ""
    return f"{where}: KenLM cannot read it{given}; give an ARPA file or a KenLM binary"


def as_text(word: bytes) -> str:
    """Return a word as KenLM's module wants it, which knows text only: bytes that are not UTF-8 are an unknown word."""
    try:
        return word.decode()
    except UnicodeDecodeError:
        return UNKNOWN
