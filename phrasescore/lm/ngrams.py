"""Texts as word ids and n-grams: every word and every end of a sentence after its n - 1 preceding words.

Legend: N predicted words, c = n - 1 words of a context.
"""

from __future__ import annotations

from array import array
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from phrasescore.errors import UserError
from phrasescore.files import display_name
from phrasescore.phrases import Ids, Phrases, offsets_of
from phrasescore.text import text_lines
from phrasescore.vocabulary import END, Vocabulary
from phrasescore.words import split_words


@dataclass(frozen=True)
class NumberedText:
    """A text whose words are numbered by first occurrence, before the vocabulary is chosen."""

    words: list[bytes]
    """The distinct words, indexed by their ids."""
    sentences: Phrases
    """The ids of each line's words."""

    def counts(self) -> Counter[bytes]:
        """Return the number of occurrences of each word."""
        times = np.bincount(self.sentences.ids, minlength=len(self.words)).tolist()
        return Counter(dict(zip(self.words, times, strict=True)))

    def encode(self, vocabulary: Vocabulary) -> Phrases:
        """Convert the sentences to ids of a vocabulary."""
        id_of_number = vocabulary.encode(self.words).ids
        return Phrases(id_of_number[self.sentences.ids], self.sentences.offsets)


def read_text(path: str | Path, read: Callable[[str | Path], Iterator[bytes]] = text_lines) -> NumberedText:
    """Read a tokenised text, one sentence a line, in four bytes of memory per word; `read` yields its lines."""
    numbers: defaultdict[bytes, int] = defaultdict()
    # A new word gets the next id.
    numbers.default_factory = numbers.__len__
    ids, lengths = array("i"), array("q")
    for line in read(path):
        words = split_words(line)
        ids.extend(map(numbers.__getitem__, words))
        lengths.append(len(words))
    if not ids:
        raise UserError(f"{display_name(path)}: has no words; give a tokenised text, one sentence a line")
    sentences = Phrases(np.frombuffer(ids, np.int32), offsets_of(np.frombuffer(lengths, np.int64)))
    return NumberedText(list(numbers), sentences)


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


def distinct_rows(rows_Nc: NDArray[np.integer]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the index of the first occurrence of each distinct row, and the index of the distinct row of each row."""
    packed = np.ascontiguousarray(rows_Nc, np.int32)
    keys = packed.view(np.dtype((np.void, packed.itemsize * packed.shape[1]))).ravel()
    _, first, which = np.unique(keys, return_index=True, return_inverse=True)
    return first.astype(np.int64), which.astype(np.int64)
