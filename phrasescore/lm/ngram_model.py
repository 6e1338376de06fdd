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
"""Converts log10 into natural logarithms."""

_BINARY = b"mmap lm "
_HEADER_BYTES = 1 << 16
_LEAST_NGRAM_BYTES = 4
"""A digit, a tab, a letter and a line feed."""
_MOST = 1.0
"""Coarse quantisation can make a sum of back-off weights slightly positive; log10 p of 1 or more is invalid."""
_LONGEST_CAUSE = 200

_in_use: WeakValueDictionary[tuple[Path, int, int, int], kenlm.Model] = WeakValueDictionary()
"""Loaded models by path, inode, size and time, because a neural language model and the decoder may share one."""


def load_kenlm(path: Path) -> kenlm.Model:
    """Load an ARPA file, compressed or not, or a KenLM binary; reuse a model that is already loaded.

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
        """A KenLM model that supports weak references."""

    config = kenlm.Config()
    config.show_progress = False
    config.arpa_complain = kenlm.ARPALoadComplain.NONE
    with _plain(path) as plain:
        _check_header(path, plain)
        # Bytes, because a file name may not be UTF-8.
        name = os.fsencode(plain)
        try:
            with _without_messages():
                model = _in_use[file] = Model(name, config)
        except (OSError, UnicodeDecodeError) as error:
            raise UserError(_explained(path, name, error)) from error
    return model


def require_log_probs(log10_probs: NDArray[np.float64], path: Path) -> None:
    """Validate log10 probabilities of words.

    KenLM rejects positive or invalid numbers in a file, but accepts minus infinity, and back-off weights so large that
    a probability is invalid.

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
    """Discard standard error, because KenLM's message about a model without `<unk>` cannot be disabled."""
    try:
        standard_error = os.dup(2)
    except OSError:
        # Standard error is closed.
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
    """Yield the path of an uncompressed copy, which is removed afterwards, or of the file itself."""
    with open_input(path) as source:
        if source.stream is source.raw:
            yield path
            return
        # An anonymous file leaves nothing behind when the process is killed.
        with TemporaryFile() as unpacked:
            with full_disk_told(gettempdir()):
                shutil.copyfileobj(source.stream, unpacked, 1 << 20)
                unpacked.seek(0)
            yield Path(f"/dev/fd/{unpacked.fileno()}")


def _check_header(path: Path, plain: Path) -> None:
    """Validate what KenLM trusts: an ARPA file is text, and can hold the n-grams for which KenLM allocates memory.

    Raises:
        UserError: it has NUL bytes, is too short, or has an invalid count.
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
    """Return the message about a file that KenLM cannot read, with KenLM's cause."""
    # The message may quote the file, in any encoding.
    said = error.object.decode("utf-8", "backslashreplace") if isinstance(error, UnicodeDecodeError) else str(error)
    said = said.removeprefix(f"Cannot read model '{name!r}' (").removesuffix(")")
    # KenLM's message has the throwing function before the cause, and advice and the position after it.
    cause = re.split(r" threw \w+(?: because `.*?')?\.\s", said, maxsplit=1, flags=re.DOTALL)[-1]
    place = re.search(r" Byte: (\d+)$", cause)
    cause = " ".join(re.split(r"\.\s\s| at byte \d+|\.? Byte: \d+$", cause)[0].split())[:_LONGEST_CAUSE]
    cause = "".join(one if one.isprintable() else one.encode("unicode_escape").decode("ascii") for one in cause)
    where = f"{path}: byte {place[1]}" if place else path
    # Some releases of Python drop a cause that is not UTF-8.
    given = f" ({cause})" if cause else ""
    return f"{where}: KenLM cannot read it{given}; give an ARPA file or a KenLM binary"


def as_text(word: bytes) -> str:
    """Convert a word to a string for the KenLM module; invalid UTF-8 becomes an unknown word."""
    try:
        return word.decode()
    except UnicodeDecodeError:
        return UNKNOWN
