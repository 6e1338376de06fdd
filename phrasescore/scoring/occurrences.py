"""Occurrences of phrase pairs, the input of every scorer.

Shapes: N occurrences.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby, pairwise

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True)
class Context:
    """The sentences of some occurrences, and the positions of their source phrases."""

    sentences: Sequence[bytes]
    """Words, separated by single spaces."""
    sentence_N: NDArray[np.int64]
    """The index of the sentence of each occurrence, ascending, so that a network encodes each sentence once."""
    start_N: NDArray[np.int64]
    """The index of the first word of the source phrase, from 0."""
    end_N: NDArray[np.int64]
    """The index of the word after its last word."""

    def take(self, first: int, end: int) -> Context:
        """Return the context of the occurrences from `first` to before `end`, with only their sentences."""
        numbers, sentence_N = np.unique(self.sentence_N[first:end], return_inverse=True)
        sentences = [self.sentences[number] for number in numbers]
        return Context(sentences, sentence_N, self.start_N[first:end], self.end_N[first:end])


@dataclass(frozen=True)
class Occurrences:
    """Phrase pairs, each optionally with the sentence in which its source phrase occurs.

    A pair of a whole sentence and its translation is one occurrence, too.
    """

    sources: Sequence[bytes]
    """Words, separated by single spaces, as in the phrase table that the scorer was trained on."""
    targets: Sequence[bytes]
    context: Context | None = None

    def __len__(self) -> int:
        return len(self.targets)

    def chunks(self, size: int) -> Iterator[Occurrences]:
        """Yield at most `size` occurrences at a time, in order."""
        for first in range(0, len(self), size):
            end = first + size
            context = self.context and self.context.take(first, end)
            yield Occurrences(self.sources[first:end], self.targets[first:end], context)


InSentence = tuple[bytes, tuple[int, int], bytes]
"""A sentence, the index of the first word of a phrase and of the word after its last word, and a target."""


def in_sentences(phrases: Sequence[InSentence]) -> Occurrences:
    """Convert phrases in sentences to occurrences; phrases of one sentence must be adjacent."""
    sentences = [sentence for sentence, _ in groupby(sentence for sentence, _, _ in phrases)]
    is_new_N = np.array([True, *(one[0] != other[0] for one, other in pairwise(phrases))][: len(phrases)])
    span_N2 = np.array([span for _, span, _ in phrases], np.int64).reshape(-1, 2)
    context = Context(sentences, np.cumsum(is_new_N, dtype=np.int64) - 1, span_N2[:, 0], span_N2[:, 1])
    sources = [b" ".join(sentence.split(b" ")[start:end]) for sentence, (start, end), _ in phrases]
    return Occurrences(sources, [target for _, _, target in phrases], context)
