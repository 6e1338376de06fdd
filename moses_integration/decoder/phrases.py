"""Translations of a source phrase, and features that depend only on the phrase pair.

Shapes: T translations of one source phrase, K components of a feature.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from phrasescore.errors import UserError
from phrasescore.table.entry import LOWEST_LOG, SURFACE, Factors
from phrasescore.words import split_words

if TYPE_CHECKING:
    from moses_integration.decoder.tables import Wanted

Words = tuple[bytes, ...]
Floats = NDArray[np.float64]
Indices = NDArray[np.int64]


@dataclass(frozen=True)
class TargetPhrase:
    """One translation of a source phrase."""

    words: Words
    scores: tuple[float, ...] | None = None
    """Natural logs of the table's columns, floored at -100; None for a copied unknown word."""
    alignment: tuple[tuple[int, int], ...] = ()
    """Word alignment inside the phrase pair: (source, target) from 0."""


class Feature:
    """A feature of the log-linear model, with one or more components (scores)."""

    width: int = 1
    tuneable: bool = True
    """Whether it is tuned and printed in n-best lists."""
    decimals: int | None = None
    """Decimals of its values that another process reproduces, in which tuning compares translations; None for all."""
    factors: Factors = SURFACE

    def __init__(self, label: str) -> None:
        self.label = label

    def words_of(self, target: TargetPhrase) -> Words:
        return tuple(map(self.factors.network_words, target.words))

    def load(self, wanted: Wanted) -> None:
        """Load the model files, if any, as far as these source phrases need them."""


class PhraseFeature(Feature, ABC):
    """A feature that depends only on the phrase pair."""

    @abstractmethod
    def values(self, source: Words, targets: Sequence[TargetPhrase]) -> Floats:
        """Return the values [T, K] of translations."""


class WordPenalty(PhraseFeature):
    """Minus the number of target words (moses/FF/WordPenaltyProducer.cpp)."""

    def values(self, source: Words, targets: Sequence[TargetPhrase]) -> Floats:
        return np.array([[-float(len(target.words))] for target in targets])


class PhrasePenalty(PhraseFeature):
    """One per phrase pair, copied words included (moses/FF/PhrasePenalty.cpp)."""

    def values(self, source: Words, targets: Sequence[TargetPhrase]) -> Floats:
        return np.ones((len(targets), 1))


class UnknownWordPenalty(PhraseFeature):
    """-100 per copied word. It is part of the total, but neither tuned nor printed in n-best lists."""

    tuneable = False

    def values(self, source: Words, targets: Sequence[TargetPhrase]) -> Floats:
        return np.array([[LOWEST_LOG if target.scores is None else 0.0] for target in targets])


class TableScores(PhraseFeature):
    """The columns of the phrase table; zeros for a copied word."""

    def __init__(self, label: str, width: int) -> None:
        super().__init__(label)
        self.width = width

    def values(self, source: Words, targets: Sequence[TargetPhrase]) -> Floats:
        zeros = (0.0,) * self.width
        rows = [zeros if target.scores is None else target.scores for target in targets]
        return np.array(rows, np.float64).reshape(len(targets), self.width)


def words_of(phrase: bytes) -> Words:
    """Split a phrase or sentence at spaces and tabs, like Moses."""
    return tuple(split_words(phrase))


def spans(sentence: Words, longest: int) -> Iterator[tuple[int, int]]:
    """Yield (first, last) word of each phrase of at most `longest` words, by length, then by position."""
    for length in range(1, min(longest, len(sentence)) + 1):
        for start in range(len(sentence) - length + 1):
            yield start, start + length - 1


def require_words(sentences: Iterable[bytes], name: object) -> None:
    """Raise an error if a sentence contains `|`, with which Moses separates factors and fields."""
    for number, sentence in enumerate(sentences, 1):
        if b"|" in sentence:
            raise UserError(
                f"{name}: line {number}: has a `|`, which separates the factors of a word; escape it as `&#124;`, "
                "like prepared text"
            )
