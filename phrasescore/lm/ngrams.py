"""Sentences as n-grams: every word and every end of a sentence after its n - 1 preceding words.

Legend: N predicted words, c = n - 1 words of a context.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from phrasescore.phrases import Ids, Phrases
from phrasescore.vocabulary import END


class Ngrams:
    """The n-grams of some sentences, extracted from one array on demand."""

    def __init__(self, sentences: Phrases, order: int) -> None:
        """Concatenate the sentences, each after n - 1 symbols `<s>` and before one `</s>`; both have the id 1."""
        self._before = order - 1
        closed = sentences.with_end(END)
        self._offsets = closed.offsets
        flat: Ids = np.insert(closed.ids, np.repeat(closed.offsets[:-1], self._before), np.int32(END))
        self._windows = np.lib.stride_tricks.sliding_window_view(flat, order) if len(flat) else flat.reshape(0, order)

    def __len__(self) -> int:
        """Return the number of words, ends of sentences included."""
        return int(self._offsets[-1])

    def take(self, numbers: NDArray[np.integer]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return contexts [N, c], the nearest word last, and predicted words [N] of the given n-grams."""
        sentence_N = np.searchsorted(self._offsets, numbers, side="right") - 1
        rows = self._windows[numbers + self._before * sentence_N].astype(np.int64)
        return rows[:, :-1], rows[:, -1]


def contexts_and_words(sentences: Phrases, order: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return contexts [N, c] and predicted words [N] of all n-grams, sentence after sentence."""
    ngrams = Ngrams(sentences, order)
    return ngrams.take(np.arange(len(ngrams)))


def distinct_rows(rows_Nc: NDArray[np.integer]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the index of the first occurrence of each distinct row, and the index of the distinct row of each row."""
    packed = np.ascontiguousarray(rows_Nc, np.int32)
    keys = packed.view(np.dtype((np.void, packed.itemsize * packed.shape[1]))).ravel()
    _, first, which = np.unique(keys, return_index=True, return_inverse=True)
    return first.astype(np.int64), which.astype(np.int64)
