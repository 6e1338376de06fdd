"""Texts as word ids and n-grams: every word and every end of a sentence after its context.

A context has the n - 1 preceding words; in a joint model they follow the window of source words around the one that the
predicted word is affiliated with. The end of a sentence is affiliated with the end of its source.

Legend: N predicted words, c words of a context.
"""

from __future__ import annotations

from array import array
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from phrasescore.errors import UserError
from phrasescore.files import display_name
from phrasescore.lm.affiliations import AffiliatedSource, TextRow, affiliate, source_windows
from phrasescore.parallel_text import ParallelText
from phrasescore.phrases import Ids, Phrases, offsets_of
from phrasescore.text import Log, lines_abreast, no_log, report_one_sided, text_lines
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


@dataclass(frozen=True)
class LmText:
    """The text of a language model; for a joint model, with its source."""

    target: NumberedText
    source: NumberedText | None
    affiliations: Phrases
    """Source position of each target word; empty without a source."""

    def encode(self, target: Vocabulary, source: Vocabulary | None) -> tuple[Phrases, AffiliatedSource | None]:
        """Convert both sides to ids of vocabularies."""
        if self.source is None or source is None:
            return self.target.encode(target), None
        return self.target.encode(target), AffiliatedSource(self.source.encode(source), self.affiliations)


class _WordNumbers:
    """Numbers the words of lines, in four bytes of memory per word."""

    def __init__(self) -> None:
        self._numbers: defaultdict[bytes, int] = defaultdict()
        # A new word gets the next id.
        self._numbers.default_factory = self._numbers.__len__
        self._ids, self._lengths = array("i"), array("q")

    def add(self, line: bytes) -> None:
        words = split_words(line)
        self._ids.extend(map(self._numbers.__getitem__, words))
        self._lengths.append(len(words))

    def text(self, path: str | Path) -> NumberedText:
        if not self._ids:
            raise UserError(f"{display_name(path)}: has no words; give a tokenised text, one sentence a line")
        offsets = offsets_of(np.frombuffer(self._lengths, np.int64))
        return NumberedText(list(self._numbers), Phrases(np.frombuffer(self._ids, np.int32), offsets))


def read_rows(
    text: str | Path | ParallelText,
    read: Callable[[str | Path], Iterator[bytes]] = text_lines,
    log: Log = no_log,
) -> Iterator[TextRow]:
    """Yield the sentences of a text, or of word-aligned parallel text; `read` yields the lines of a file."""
    if not isinstance(text, ParallelText):
        yield from map(TextRow, read(text))
        return
    assert text.alignment is not None
    paths = text.target, text.source
    rows: Iterable[tuple[bytes, ...]] = lines_abreast(*paths, text.alignment, read=read)
    yield from affiliate(report_one_sided(rows, paths, log), text.alignment)


def read_text(
    text: str | Path | ParallelText,
    read: Callable[[str | Path], Iterator[bytes]] = text_lines,
    log: Log = no_log,
) -> LmText:
    """Read a tokenised text, one sentence a line; see `read_rows`."""
    target, source, positions = _WordNumbers(), _WordNumbers(), array("i")
    for row in read_rows(text, read, log):
        target.add(row.target)
        source.add(row.source or b"")
        positions.extend(row.affiliations)
    if not isinstance(text, ParallelText):
        return LmText(target.text(text), None, Phrases.from_lists([]))
    numbered = target.text(text.target)
    affiliations = Phrases(np.frombuffer(positions, np.int32), numbered.sentences.offsets)
    return LmText(numbered, source.text(text.source), affiliations)


class Ngrams:
    """The n-grams of some sentences, extracted from one array on demand."""

    def __init__(
        self, sentences: Phrases, order: int, source: AffiliatedSource | None = None, source_words: int = 0
    ) -> None:
        """Concatenate the sentences, each after n - 1 symbols `<s>` and before one `</s>`; both have the id 1.

        The contexts of a joint model begin with `source_words` words of the source.
        """
        self._before = order - 1
        closed = sentences.with_end(END)
        self._offsets = closed.offsets
        flat: Ids = np.insert(closed.ids, np.repeat(closed.offsets[:-1], self._before), np.int32(END))
        self._windows = np.lib.stride_tricks.sliding_window_view(flat, order) if len(flat) else flat.reshape(0, order)
        self._source_windows: Ids | None = None
        if source is not None:
            self._source_windows, first = source_windows(source.sentences, source_words)
            positions = np.insert(source.affiliations.ids, sentences.offsets[1:], source.sentences.lengths)
            self._window_of_word = positions + np.repeat(first, closed.lengths)

    def __len__(self) -> int:
        """Return the number of words, ends of sentences included."""
        return int(self._offsets[-1])

    def take(self, numbers: NDArray[np.integer]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return contexts [N, c], the nearest word last, and predicted words [N] of the given n-grams."""
        sentence_N = np.searchsorted(self._offsets, numbers, side="right") - 1
        rows = self._windows[numbers + self._before * sentence_N].astype(np.int64)
        contexts, words = rows[:, :-1], rows[:, -1]
        if self._source_windows is not None:
            contexts = np.concatenate([self._source_windows[self._window_of_word[numbers]], contexts], axis=1)
        return contexts, words


def distinct_rows(rows_Nc: NDArray[np.integer]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the index of the first occurrence of each distinct row, and the index of the distinct row of each row."""
    packed = np.ascontiguousarray(rows_Nc, np.int32)
    keys = packed.view(np.dtype((np.void, packed.itemsize * packed.shape[1]))).ravel()
    _, first, which = np.unique(keys, return_index=True, return_inverse=True)
    return first.astype(np.int64), which.astype(np.int64)
