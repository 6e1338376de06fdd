"""Choose from a large corpus the sentences that are most like a small one.

Moore and Lewis ("Intelligent selection of language model training data", ACL 2010) score a sentence s by

    d(s) = H_in(s) - H_general(s)

the difference of its cross-entropies per word under a model of the small text and a model of as much of the large one,
and keep the lowest. Axelrod, He and Gao ("Domain adaptation via pseudo in-domain data selection", EMNLP 2011) add the
differences of source and target. As in Moore and Lewis, both models of a side know the same words, those that the small
text has twice or more; all others are one word to them. Else the larger vocabulary would make sentences cheap.

Nothing here holds a corpus: scores lie in a file of six bytes a sentence, and the threshold that gives a number of
words is found by counting in it twice.
"""

from __future__ import annotations

import math
import random
import struct
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from moses_integration.build.language_model import build_language_model
from moses_integration.build.parallel_text import read_pairs
from phrasescore.errors import UserError
from phrasescore.files import open_output, write_lines
from phrasescore.lm.ngram_model import LN_10, load_kenlm
from phrasescore.text import is_text, text_lines
from phrasescore.words import split_words

if TYPE_CHECKING:
    import kenlm

Part = tuple[Path, ...]
"""A file of a corpus: one path, or source and target of parallel text."""

OTHER = b"<other>"
"""Stands for all words that the small text has less than twice. Text with Moses' escapes has no such word."""

_RECORD = np.dtype([("difference", "<f4"), ("words", "<u2")])
_PACK = struct.Struct("<fH").pack
_MOST_WORDS = np.iinfo(np.uint16).max
_BLOCK = 1 << 20
_HALF = 1 << 16
_SIGN = np.uint32(1 << 31)
_MINUS_ZERO = (1 << 31) - 1
"""The key of -0.0, which is as large as 0.0 though its key is lower."""


class Domain:
    """One language: a model of the small text and one of the sample of the large text."""

    def __init__(self, vocabulary: frozenset[bytes], inside: kenlm.Model, general: kenlm.Model) -> None:
        self._vocabulary, self._inside, self._general = vocabulary, inside, general

    @classmethod
    def learn(cls, small: Sequence[bytes], sample: Sequence[bytes], order: int, folder: Path) -> Domain:
        """Estimate both models, interpolated modified Kneser-Ney, in files of `folder`.

        Raises:
            UserError: a text has no words, or a model cannot be estimated.
        """
        counts = Counter(word for line in small for word in split_words(line))
        vocabulary = frozenset(word for word, count in counts.items() if count > 1 and is_text(word))
        models = []
        for name, lines in (("small", small), ("general", sample)):
            text, arpa = folder / f"{name}.text", folder / f"{name}.arpa"
            write_lines(text, (_known(line, vocabulary) for line in lines))
            build_language_model(text, arpa, order)
            models.append(load_kenlm(arpa))
        return cls(vocabulary, *models)

    def difference(self, line: bytes) -> float:
        """Return H_in - H_general of a sentence, in nats per word; its end counts as a word."""
        text = _known(line, self._vocabulary).decode()
        score: float = self._general.score(text) - self._inside.score(text)
        return LN_10 * score / (1 + len(split_words(line)))


def _known(line: bytes, vocabulary: frozenset[bytes]) -> bytes:
    return b" ".join(word if word in vocabulary else OTHER for word in split_words(line))


def read_part(part: Part) -> Iterator[tuple[bytes, ...]]:
    """Yield the sentences of a file, or the pairs of two.

    Raises:
        UserError: a file cannot be read, or two differ in length.
    """
    if len(part) == 1:
        return ((line,) for line in text_lines(part[0]))
    return read_pairs(*part)


def sample(parts: Iterable[Part], size: int, seed: int) -> list[tuple[bytes, ...]]:
    """Return sentences or pairs drawn at random, each of them equally likely (Vitter's algorithm R).

    Raises:
        UserError: see `read_part`.
    """
    generator = random.Random(seed)
    drawn: list[tuple[bytes, ...]] = []
    seen = 0
    for part in parts:
        for lines in read_part(part):
            seen += 1
            if len(drawn) < size:
                drawn.append(lines)
            elif (place := int(generator.random() * seen)) < size:
                drawn[place] = lines
    return drawn


def write_scores(parts: Sequence[Part], domains: Sequence[Domain], output: Path) -> int:
    """Write the score of every sentence, in order, with its number of words on the last side; return all words.

    Args:
        parts: the large corpus.
        domains: of each side.
        output: a file of records, six bytes each.

    Raises:
        UserError: see `read_part`.
    """
    total = 0
    with open_output(output) as stream:
        for part in parts:
            for lines in read_part(part):
                difference = sum(domain.difference(line) for domain, line in zip(domains, lines, strict=True))
                words = min(len(split_words(lines[-1])), _MOST_WORDS)
                stream.write(_PACK(difference, words))
                total += words
    return total


def threshold(scores: Path, words: int) -> float:
    """Return the highest score that is kept when the best sentences with at most this many words in all are.

    Scores are counted by the upper half of their bits, then those at the edge by the lower half: two passes over the
    file, and memory for 65,536 counts. Minus infinity if not even the sentences of the best score fit.
    """
    upper, before = _edge(scores, words, None)
    if upper == _HALF:
        return math.inf
    lower, _ = _edge(scores, words - before, upper)
    return _score_below(upper * _HALF + lower)


def _edge(scores: Path, words: int, upper: int | None) -> tuple[int, int]:
    """Return the first half-key at which the words do not fit any more, and the words below it.

    With `upper`, among the keys whose upper half that is.
    """
    counts: NDArray[np.int64] = np.zeros(_HALF, np.int64)
    for keys, block_words in _keyed(scores):
        if upper is None:
            halves = keys >> 16
        else:
            here = (keys >> 16) == upper
            halves, block_words = keys[here] & (_HALF - 1), block_words[here]
        counts += np.bincount(halves, block_words, _HALF).astype(np.int64)
    total = np.cumsum(counts)
    edge = int(np.searchsorted(total, words, "right"))
    return edge, int(total[edge - 1]) if edge else 0


def _keyed(scores: Path) -> Iterator[tuple[NDArray[np.uint32], NDArray[np.int64]]]:
    """Yield blocks of scores as whole numbers of the same order, and words."""
    if not scores.stat().st_size:
        return
    records = np.memmap(scores, _RECORD, "r")
    for start in range(0, len(records), _BLOCK):
        block = records[start : start + _BLOCK]
        bits = np.ascontiguousarray(block["difference"]).view(np.uint32)
        yield np.where(bits & _SIGN, ~bits, bits | _SIGN), block["words"].astype(np.int64)


def _score_below(key: int) -> float:
    """Return the number just below the one with a key."""
    if key == 0:
        return -math.inf
    bits = key - 1
    if bits == _MINUS_ZERO:
        bits -= 1
    bits = bits ^ int(_SIGN) if bits & int(_SIGN) else ~bits & 0xFFFFFFFF
    return float(np.array(bits, np.uint32).view(np.float32))


@dataclass(frozen=True)
class Chosen:
    """What was kept of a part of the corpus."""

    part: str
    sentences: int
    kept: int
    words: int
    """Of the last side."""
    kept_words: int


def choose(parts: Sequence[Part], scores: Path, highest: float, outputs: Sequence[Path]) -> list[Chosen]:
    """Copy the sentences with a score of at most `highest`, in their order, and return how many each part gave.

    Raises:
        UserError: the scores are those of another corpus, none is kept, or a file cannot be read or written.
    """
    report = []
    with ExitStack() as stack:
        streams = [stack.enter_context(open_output(output)) for output in outputs]
        records = iter(_records(scores))
        for part in parts:
            counts = Counter[str]()
            for lines in read_part(part):
                difference, words = next(records, (math.nan, 0))
                if math.isnan(difference):
                    raise UserError(f"{scores}: holds fewer scores than there are sentences; delete it and score again")
                counts.update(sentences=1, words=words)
                if words and difference <= highest:
                    counts.update(kept=1, kept_words=words)
                    for stream, line in zip(streams, lines, strict=True):
                        stream.write(line + b"\n")
            kept = (counts["sentences"], counts["kept"], counts["words"], counts["kept_words"])
            report.append(Chosen(str(part[-1]), *kept))
        if not any(chosen.kept for chosen in report):
            raise UserError(f"{parts[0][-1]}: not one sentence fits into the number of words; give a larger one")
    return report


def _records(scores: Path) -> Iterator[tuple[float, int]]:
    records = np.memmap(scores, _RECORD, "r") if scores.stat().st_size else np.zeros(0, _RECORD)
    for start in range(0, len(records), _BLOCK):
        yield from records[start : start + _BLOCK].tolist()
