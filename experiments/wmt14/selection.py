"""Select the sentences of a large corpus that are most similar to a small in-domain corpus.

Moore and Lewis ("Intelligent selection of language model training data", ACL 2010) score a sentence s by

    d(s) = H_in(s) - H_general(s)

the difference of its cross-entropies per word under a model of the small text and a model of a sample of the large text
of the same size, and keep the lowest scores. Axelrod, He and Gao ("Domain adaptation via pseudo in-domain data
selection", EMNLP 2011) add the differences of source and target. As in Moore and Lewis, both models of a side have the
same vocabulary, the words that occur at least twice in the small text; all other words are unknown. Otherwise the
larger vocabulary would favour its sentences.

Memory: about 25 bytes per sentence, for a score and a number of words.

Legend: N sentences.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterable, Sequence
from contextlib import ExitStack
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from moses_integration.building.language_model import build_language_model
from phrasescore.errors import UserError
from phrasescore.files import open_output, write_lines
from phrasescore.lm.ngram_model import LN_10, load_kenlm
from phrasescore.text import is_text, parallel_lines
from phrasescore.words import split_words

if TYPE_CHECKING:
    import kenlm

Sentences = tuple[bytes, ...]
"""A sentence, or a sentence and its translation."""

OTHER = b"<other>"
"""Replaces unknown words. Escaped text cannot contain it."""

_SCORE = np.dtype([("difference", "<f4"), ("words", "<i4")])
_SEED = 1
"""Random seed of the sample of the large corpus, which has as many sentences as the small text."""


def select(
    small: Sequence[str],
    large: Sequence[Sequence[str]],
    share: float,
    order: int,
    outputs: Sequence[str],
) -> None:
    """Write the best sentences of a large corpus, and print their number for each part.

    Args:
        small: the in-domain text, one file per side.
        large: the parts of the corpus, each with one file per side.
        share: maximum fraction of the words of the last side to keep.
        order: order of the models.
        outputs: output files, one per side.

    Raises:
        UserError: a file cannot be read or written, the small text has no words, or `share` is too small.
    """
    small_text = list(parallel_lines(*small))
    for side, path in enumerate(small):
        if not any(split_words(sentences[side]) for sentences in small_text):
            raise UserError(f"{path}: has no words; give text of the domain")
    drawn = sample((sentences for part in large for sentences in parallel_lines(*part)), len(small_text), _SEED)
    with TemporaryDirectory(prefix=".select", dir=Path(outputs[0]).parent) as folder:
        domains = [
            Domain.learn([one[side] for one in small_text], [one[side] for one in drawn], order, Path(folder))
            for side in range(len(small))
        ]
        scores_N = np.fromiter(
            (_score(sentences, domains) for part in large for sentences in parallel_lines(*part)), dtype=_SCORE
        )
    kept_N = best(scores_N["difference"], scores_N["words"], share)
    if not kept_N.any():
        raise UserError(f"{large[0][-1]}: not one sentence fits into a share of {share:g} of the words; keep more")
    _copy(large, kept_N, scores_N["words"], outputs)


def sample(sentences: Iterable[Sentences], size: int, seed: int) -> list[Sentences]:
    """Return a uniform random sample of sentences (Vitter's algorithm R)."""
    generator, drawn = random.Random(seed), list[Sentences]()
    for seen, one in enumerate(sentences, 1):
        if len(drawn) < size:
            drawn.append(one)
        elif (place := int(generator.random() * seen)) < size:
            drawn[place] = one
    return drawn


class Domain:
    """The models of one language: of the small text and of the sample of the large text."""

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
        """Return H_in - H_general of a sentence, in nats per word; the end symbol counts as a word."""
        text = _known(line, self._vocabulary).decode()
        score: float = self._general.score(text) - self._inside.score(text)
        return LN_10 * score / (1 + len(split_words(line)))


def _known(line: bytes, vocabulary: frozenset[bytes]) -> bytes:
    return b" ".join(word if word in vocabulary else OTHER for word in split_words(line))


def _score(sentences: Sentences, domains: Sequence[Domain]) -> tuple[float, int]:
    difference = sum(domain.difference(line) for domain, line in zip(domains, sentences, strict=True))
    return difference, len(split_words(sentences[-1]))


def best(difference_N: NDArray[np.float32], words_N: NDArray[np.int32], share: float) -> NDArray[np.bool_]:
    """Return a mask of the sentences with the lowest scores that have at most this fraction of the words.

    Sentences without words are excluded. Ties are broken by order.
    """
    order_N = np.argsort(difference_N, kind="stable")
    total_N = np.cumsum(words_N[order_N], dtype=np.int64)
    kept_N = np.zeros(len(order_N), bool)
    kept_N[order_N[: np.searchsorted(total_N, share * int(total_N[-1]), "right")]] = True
    return kept_N & (words_N > 0)


def _copy(
    large: Sequence[Sequence[str]], kept_N: NDArray[np.bool_], words_N: NDArray[np.int32], outputs: Sequence[str]
) -> None:
    """Copy the selected sentences in order, and print their numbers; words are counted on the last side."""
    first = 0
    with ExitStack() as stack:
        streams = [stack.enter_context(open_output(Path(output))) for output in outputs]
        for part in large:
            last = first
            for last, sentences in enumerate(parallel_lines(*part), first + 1):
                if kept_N[last - 1]:
                    for stream, line in zip(streams, sentences, strict=True):
                        stream.write(line + b"\n")
            kept, words = kept_N[first:last], words_N[first:last]
            counted = f"{kept.sum():,} of {len(kept):,} sentences, {words[kept].sum():,} of {words.sum():,} words"
            print(f"{part[-1]}: {counted}")
            first = last
