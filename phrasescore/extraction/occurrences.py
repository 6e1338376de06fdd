"""Occurrences of phrase pairs in word-aligned sentences.

They are extracted on demand: a text has about sixty per sentence, and extraction from a few sentences is fast.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from phrasescore.extraction.spans import AlignedSentences, consistent_spans
from phrasescore.pairs import PhrasePairs
from phrasescore.phrases import PhrasesInSentences


@dataclass(frozen=True)
class Occurrences:
    """Phrase pairs in context: phrase i of one side translates phrase i of the other."""

    source: PhrasesInSentences
    target: PhrasesInSentences

    def __len__(self) -> int:
        return len(self.source)

    def take(self, indices: NDArray[np.integer]) -> Occurrences:
        """Return the occurrences at these indices, with only their sentences."""
        return Occurrences(self.source.take(indices), self.target.take(indices))


def find_occurrences(sentences: PhrasePairs) -> Occurrences:
    """Return the phrase pairs of aligned sentences, sentence by sentence."""
    assert sentences.alignment is not None
    points_P2 = sentences.alignment.ids.reshape(-1, 2)
    sentence_P = np.repeat(np.arange(len(sentences)), sentences.alignment.lengths // 2)
    offsets = sentences.source.offsets, sentences.target.offsets
    source_P, target_P = (side[sentence_P] + words for side, words in zip(offsets, points_P2.T, strict=True))
    spans = consistent_spans(AlignedSentences(*offsets, source_P, target_P))
    sentence = np.searchsorted(offsets[0], spans.source_first, "right") - 1
    order = np.argsort(sentence, kind="stable")
    sentence = sentence[order]
    source, target = (
        PhrasesInSentences(side, sentence, first[order] - begins[sentence], last[order] + 1 - begins[sentence])
        for side, begins, first, last in (
            (sentences.source, offsets[0], spans.source_first, spans.source_last),
            (sentences.target, offsets[1], spans.target_first, spans.target_last),
        )
    )
    return Occurrences(source, target)
