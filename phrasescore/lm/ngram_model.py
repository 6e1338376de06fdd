"""N-gram models, read by KenLM: loading, and the back-off model of a neural language model."""

from __future__ import annotations

import math
import os
import re
import shutil
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path
from tempfile import TemporaryFile, gettempdir
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from phrasescore.errors import UserError, reported_as
from phrasescore.files import full_disk_as_error, open_input

if TYPE_CHECKING:
    import kenlm

LN_10 = math.log(10)
"""Converts log10 into natural logarithms."""

_UNKNOWN, _START, _END = "<unk>", "<s>", "</s>"
_BINARY = b"mmap lm "
_HEADER_BYTES = 1 << 16
_LEAST_NGRAM_BYTES = 4
"""A digit, a tab, a letter and a line feed."""
_MOST = 1.0
"""Coarse quantisation can make a sum of back-off weights slightly positive; log10 p of 1 or more is invalid."""
_LONGEST_CAUSE = 200


def load_kenlm(path: Path) -> kenlm.Model:
    """Load an ARPA file, compressed or not, or a KenLM binary; reuse a model that is already loaded."""
    try:
        import kenlm  # noqa: F401
    except ImportError as error:
        raise UserError(f"{path}: reading n-gram models needs the module `kenlm`; pip install ufal.kenlm") from error
    if not path.is_file():
        what = "is not a file" if path.exists() else "does not exist"
        raise UserError(f"{path}: {what}; give an ARPA file or a KenLM binary")
    place, status = path.resolve(), path.stat()
    with reported_as({place: path}):
        return _load(place, (status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns))


@lru_cache(maxsize=2)
def _load(path: Path, version: tuple[int, ...]) -> kenlm.Model:
    """Load a model, which a neural language model and the decoder may share; a replaced file has another version."""
    import kenlm

    config = kenlm.Config()
    config.show_progress = False
    config.arpa_complain = kenlm.ARPALoadComplain.NONE
    with _plain(path) as plain:
        _check_header(path, plain)
        try:
            # Bytes, because a file name may not be UTF-8.
            with _without_messages():
                return kenlm.Model(os.fsencode(plain), config)
        except (OSError, UnicodeDecodeError) as error:
            cause = _cause_of(error)
            raise UserError(f"{path}: KenLM cannot read it{cause}; give an ARPA file or a KenLM binary") from error


def require_log10_probs(log10_probs: Sequence[float] | NDArray[np.float64], path: Path) -> None:
    """Reject minus infinity, and back-off weights that make a probability invalid, which KenLM accepts."""
    # `max` may overlook a NaN; the sum is NaN then.
    if not (sum(log10_probs) > -np.inf and max(log10_probs, default=0) <= _MOST):
        raise UserError(
            f"{path}: gives words log-probabilities that are infinite or above 0; fix it: write -99 for the logarithm "
            "of 0, and no back-off weights that make a probability more than 1"
        )


@contextmanager
def _without_messages() -> Iterator[None]:
    """Discard standard error, because KenLM's message about a model without `<unk>` cannot be disabled."""
    try:
        standard_error = os.dup(2)
    except OSError:  # Standard error is closed.
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
            with full_disk_as_error(gettempdir()):
                shutil.copyfileobj(source.stream, unpacked, 1 << 20)
                unpacked.seek(0)
            yield Path(f"/dev/fd/{unpacked.fileno()}")


def _check_header(path: Path, plain: Path) -> None:
    """Check what KenLM trusts: an ARPA file is text, and can hold the n-grams for which KenLM allocates memory."""
    with plain.open("rb") as file:
        header, size = file.read(_HEADER_BYTES), os.fstat(file.fileno()).st_size
    if b"\0" in header and not header.startswith(_BINARY):
        raise UserError(f"{path}: has NUL bytes, which are in no ARPA file; convert it to UTF-8 or estimate it again")
    counts = re.findall(rb"^ngram \d+=[ \t]*(.*?)\s*$", header.partition(b"\n\\1-grams:")[0], re.MULTILINE)
    if len(counts) == 1:
        raise UserError(f"{path}: has unigrams only, which KenLM does not read; estimate a model of order 2 or more")
    if not all(map(bytes.isdigit, counts)) or sum(int(count[:20]) for count in counts) * _LEAST_NGRAM_BYTES > size:
        raise UserError(
            f"{path}: has a header with more n-grams than the file can hold, or invalid numbers of n-grams; copy the "
            "file or estimate it again"
        )


def _cause_of(error: OSError | UnicodeDecodeError) -> str:
    """Return KenLM's cause in parentheses, without the throwing function, advice and position around it."""
    # The message may quote the file, in any encoding.
    text = error.object.decode("utf-8", "backslashreplace") if isinstance(error, UnicodeDecodeError) else str(error)
    text = text.partition("' (")[2].removesuffix(")")
    cause = re.split(r" threw \w+(?: because `.*?')?\.\s", text, maxsplit=1, flags=re.DOTALL)[-1]
    cause = " ".join(re.split(r"\.\s\s| at byte \d+|\.? Byte: \d+$", cause)[0].split())[:_LONGEST_CAUSE]
    cause = "".join(one if one.isprintable() else one.encode("unicode_escape").decode("ascii") for one in cause)
    # Some releases of Python drop a cause that is not UTF-8.
    return f" ({cause})" if cause else ""


def as_text(word: bytes) -> str:
    """Convert a word to a string for the KenLM module; invalid UTF-8 becomes an unknown word."""
    try:
        return word.decode()
    except UnicodeDecodeError:
        return _UNKNOWN


def as_word(word: bytes) -> str:
    """Convert a word for KenLM; text that spells a symbol is an unknown word."""
    text = as_text(word)
    return _UNKNOWN if text in (_START, _END) else text


class BackoffModel:
    """The n-gram model for words outside the shortlist of a neural language model.

    For a word w outside the shortlist S of the network, after the history h whose last word is v,

        p(w | h) = p_net(<unk> | h) * p_b(w | v) / m(v),     m(v) = 1 - sum over u in S of p_b(u | v)

    where p_b is the back-off model and m(v) is its probability mass outside the shortlist. So for any history p sums to
    one over the shortlist, the other words of the back-off model and its `<unk>`, which represents all words unknown to
    both. m(v) requires a query for every word of the shortlist, so it is computed only if a word outside the shortlist
    follows, and cached for each v. Longer histories would rarely hit the cache, and gain nothing on Multi30k:
    perplexity 20.74 on the validation text, 20.77 with whole histories.
    """

    def __init__(self, path: Path, shortlist: Iterable[bytes]) -> None:
        """Load the model; `shortlist` has the words of the network, without its symbols."""
        self._path, self._model = path, load_kenlm(path)
        import kenlm

        self._new_state = kenlm.State
        # Words that the back-off model lacks have no probability mass in it.
        self._shortlist = [_END, *(word for word in map(as_word, shortlist) if word in self._model)]
        self._outside: dict[kenlm.State, float] = {}

    def __contains__(self, word: bytes) -> bool:
        return as_word(word) in self._model

    def log_share(self, word: str, before: str | None) -> float:
        """Return ln(p_b(w | v) / m(v)) of a word outside the shortlist; v is None at the start of the sentence."""
        before_start, state = self._new_state(), self._new_state()
        if before is None:
            self._model.BeginSentenceWrite(state)
        else:
            self._model.NullContextWrite(before_start)
            self._model.BaseScore(before_start, before, state)
        [log10_prob] = self._log10_probs(state, [word])
        return min(0.0, LN_10 * float(log10_prob) - math.log(self._mass_outside(state)))

    def word_log_probs(self, sentences: Sequence[Sequence[bytes]]) -> list[NDArray[np.float64]]:
        """Return ln p of the words and the `</s>` of each sentence by the n-gram model alone."""
        return [self._log_probs_of(sentence) for sentence in sentences]

    def _log_probs_of(self, sentence: Sequence[bytes]) -> NDArray[np.float64]:
        before, after = self._new_state(), self._new_state()
        self._model.BeginSentenceWrite(before)
        scores = []
        for word in (*map(as_word, sentence), _END):
            scores.append(self._model.BaseScore(before, word, after))
            before, after = after, before
        require_log10_probs(scores, self._path)
        return LN_10 * np.array(scores)

    def _mass_outside(self, state: kenlm.State) -> float:
        mass = self._outside.get(state)
        if mass is None:
            # Rounding errors may exceed the rest if the shortlist has nearly all mass; `<unk>` is always outside, so
            # its probability is a lower bound.
            *inside, least = (10.0 ** self._log10_probs(state, [*self._shortlist, _UNKNOWN])).tolist()
            mass = self._outside[state] = max(1.0 - math.fsum(inside), least, sys.float_info.min)
        return mass

    def _log10_probs(self, state: kenlm.State, words: Sequence[str]) -> NDArray[np.float64]:
        score, after = self._model.BaseScore, self._new_state()
        log10_probs = [score(state, word, after) for word in words]
        require_log10_probs(log10_probs, self._path)
        return np.array(log10_probs)
