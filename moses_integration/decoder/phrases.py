"""Translations of a source phrase, and the features that depend on the phrase pair alone.

Shapes: T translations of one source phrase, K components of a feature.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence, Set
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from phrasescore.errors import UserError
from phrasescore.table.entry import LOWEST_LOG
from phrasescore.table.factors import SURFACE, Factors
from phrasescore.words import split_words

Words = tuple[bytes, ...]
Floats = NDArray[np.float64]
Indices = NDArray[np.int64]


@dataclass(frozen=True)
class TargetPhrase:
    """One translation of a source phrase."""

    words: Words
    scores: tuple[float, ...] | None = None
    """Floored logarithms of the table's columns; None for the copy of an unknown word."""
    alignment: tuple[tuple[int, int], ...] = ()
    """Links source-target inside the phrase pair, from 0."""


class Feature:
    """What every feature has: a label and a number of components, as in moses.ini."""

    width: int = 1
    tuneable: bool = True
    """Whether it appears in n-best lists and is tuned."""

    factors: Factors = SURFACE
    """The factor of target words that it looks at, by its position in the phrase table's words."""

    def __init__(self, label: str) -> None:
        self.label = label

    def words_of(self, target: TargetPhrase) -> Words:
        """Return the words of a translation as the feature sees them: of factored words one factor."""
        return tuple(map(self.factors.network_words, target.words))

    def load(self, wanted: Set[bytes]) -> None:
        """Read what its line names, as far as these source phrases need it; most features name nothing."""


class PhraseFeature(Feature, ABC):
    """A feature of the phrase pair alone."""

    @abstractmethod
    def values(self, source: Words, targets: Sequence[TargetPhrase]) -> Floats:
        """Return its values [T, K] for translations of a source phrase."""


class WordPenalty(PhraseFeature):
    """Minus the number of target words (moses/FF/WordPenaltyProducer.cpp)."""

    def values(self, source: Words, targets: Sequence[TargetPhrase]) -> Floats:
        """Return values [T, 1]."""
        return np.array([[-float(len(target.words))] for target in targets])


class PhrasePenalty(PhraseFeature):
    """One per phrase pair, copied words included (moses/FF/PhrasePenalty.cpp)."""

    def values(self, source: Words, targets: Sequence[TargetPhrase]) -> Floats:
        """Return values [T, 1]."""
        return np.ones((len(targets), 1))


class UnknownWordPenalty(PhraseFeature):
    """-100 per copied word. Part of the total, absent from n-best lists and from tuning."""

    tuneable = False

    def values(self, source: Words, targets: Sequence[TargetPhrase]) -> Floats:
        """Return values [T, 1]."""
        return np.array([[LOWEST_LOG if target.scores is None else 0.0] for target in targets])


class TableScores(PhraseFeature):
    """The columns of the phrase table; a copied word has zeros."""

    def __init__(self, label: str, width: int) -> None:
        super().__init__(label)
        self.width = width

    def values(self, source: Words, targets: Sequence[TargetPhrase]) -> Floats:
        """Return values [T, K]."""
        zeros = (0.0,) * self.width
        rows = [zeros if target.scores is None else target.scores for target in targets]
        return np.array(rows, np.float64).reshape(len(targets), self.width)


def words_of(phrase: bytes) -> Words:
    """Return the words of a phrase or a sentence, split at blanks and tabs, as Moses' decoder does."""
    return tuple(split_words(phrase))


def spans(sentence: Words, longest: int) -> Iterator[tuple[int, int]]:
    """Yield first and last word of each phrase of at most `longest` words, short ones first, then from the left."""
    for length in range(1, min(longest, len(sentence)) + 1):
        for start in range(len(sentence) - length + 1):
            yield start, start + length - 1


def require_words(sentences: Iterable[bytes], name: object) -> None:
    """Check that sentences have no `|`, with which Moses separates factors and fields; `name` is that of their file."""
    for number, sentence in enumerate(sentences, 1):
        if b"|" in sentence:
            raise UserError(
                f"{name}: line {number}: has a `|`, which separates the factors of a word; write it as `&#124;`, as "
                "prepared text has it"
            )
