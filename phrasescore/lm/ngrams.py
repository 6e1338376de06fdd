"""Texts as word ids and n-grams: every word and every end of a sentence after its context.

A context has the n - 1 preceding words; in a joint model they follow the window of source words around the one that the
predicted word is affiliated with. The end of a sentence is affiliated with the end of its source.

The affiliation of a target word is the source word that it is taken to translate (Devlin et al. 2014, section 2.1): the
middle one of the words that it is aligned to; for an unaligned word that of the nearest aligned target word, of two the
one on the right. The words around a phrase are unknown to the decoder, so they count as aligned with the ends of its
source phrase; a sentence pair is one phrase pair.

Legend: N predicted words, c words of a context.
"""

from __future__ import annotations

from array import array
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from phrasescore.aligned_phrases import parse_points
from phrasescore.errors import UserError
from phrasescore.files import display_name
from phrasescore.parallel_text import ParallelText
from phrasescore.phrases import Ids, Offsets, Phrases, offsets_of
from phrasescore.text import Log, no_log, parallel_lines, report_one_sided, text_lines
from phrasescore.vocabulary import END, Vocabulary
from phrasescore.words import split_words


class TextRow(NamedTuple):
    """A target sentence; for a joint model, with its source."""

    target: bytes
    source: bytes | None = None
    affiliations: Sequence[int] = ()
    """Source position of each target word, from 0."""


class AffiliatedSource(NamedTuple):
    """The source of target sentences."""

    sentences: Phrases
    affiliations: Phrases

    def where(self, is_taken: NDArray[np.bool_]) -> AffiliatedSource:
        return AffiliatedSource(self.sentences.where(is_taken), self.affiliations.where(is_taken))


def affiliations(points: Iterable[tuple[int, int]], words: int, source_words: int) -> list[int]:
    """Return the source position of each of the `words` target words, from (source, target) alignment points."""
    aligned: defaultdict[int, list[int]] = defaultdict(list)
    for source, target in sorted(set(points)):
        aligned[target].append(source)
    position_of = {target: sources[(len(sources) - 1) // 2] for target, sources in aligned.items()}
    position_of |= {-1: 0, words: max(0, source_words - 1)}

    def inherited(word: int) -> int:
        return position_of[min(position_of, key=lambda other: (abs(other - word), -other))]

    return [position_of[word] if word in position_of else inherited(word) for word in range(words)]


def affiliate(rows: Iterable[Sequence[bytes]], alignment: Path) -> Iterator[TextRow]:
    """Return (target, source, alignment points) with affiliations in place of the points."""
    for number, (target, source, line) in enumerate(rows, 1):
        lengths = len(split_words(source)), len(split_words(target))
        points = parse_points(line, alignment, number, lengths)
        yield TextRow(target, source, affiliations(zip(points[::2], points[1::2], strict=True), *lengths[::-1]))


def source_windows(sentences: Phrases, words: int) -> tuple[Ids, Offsets]:
    """Return the window of `words` (odd) source words around each word and the end of each sentence [*, words].

    Also return the row of the first window of each sentence. The words beyond a sentence are end symbols.
    """
    half, closed = words // 2, sentences.with_end(END)
    # Each sentence follows `half` end symbols; at least one window follows the last sentence.
    before = np.repeat(closed.offsets, half + words * (np.arange(len(closed.offsets)) == len(sentences)))
    flat: Ids = np.insert(closed.ids, before, np.int32(END))
    first = closed.offsets[:-1] + half * np.arange(len(sentences))
    return np.lib.stride_tricks.sliding_window_view(flat, words), first


class NumberedText:
    """A text whose words are numbered by first occurrence, before the vocabulary is chosen; four bytes a word."""

    def __init__(self) -> None:
        self._numbers: defaultdict[bytes, int] = defaultdict()
        # A new word gets the next id.
        self._numbers.default_factory = self._numbers.__len__
        self.ids, self._lengths = array("i"), array("q")

    def add(self, line: bytes) -> None:
        words = split_words(line)
        self.ids.extend(map(self._numbers.__getitem__, words))
        self._lengths.append(len(words))

    @property
    def sentences(self) -> Phrases:
        return Phrases(np.frombuffer(self.ids, np.int32), offsets_of(np.frombuffer(self._lengths, np.int64)))

    def counts(self) -> Counter[bytes]:
        times = np.bincount(self.sentences.ids, minlength=len(self._numbers)).tolist()
        return Counter(dict(zip(self._numbers, times, strict=True)))

    def encode(self, vocabulary: Vocabulary) -> Phrases:
        id_of_number, sentences = vocabulary.encode(list(self._numbers)).ids, self.sentences
        return Phrases(id_of_number[sentences.ids], sentences.offsets)


@dataclass(frozen=True)
class LmText:
    """The text of a language model; for a joint model, with its source."""

    target: NumberedText
    source: NumberedText | None
    affiliations: Phrases
    """Source position of each target word; empty without a source."""

    def encode(self, target: Vocabulary, source: Vocabulary | None) -> tuple[Phrases, AffiliatedSource | None]:
        if self.source is None or source is None:
            return self.target.encode(target), None
        return self.target.encode(target), AffiliatedSource(self.source.encode(source), self.affiliations)


def read_rows(
    text: str | Path | ParallelText, read: Callable[[str | Path], Iterator[bytes]] = text_lines, log: Log = no_log
) -> Iterator[TextRow]:
    """Yield the sentences of a text, or of word-aligned parallel text; `read` yields the lines of a file."""
    if not isinstance(text, ParallelText):
        yield from map(TextRow, read(text))
        return
    assert text.alignment is not None
    paths = text.target, text.source
    rows: Iterable[tuple[bytes, ...]] = parallel_lines(*paths, text.alignment, read=read)
    yield from affiliate(report_one_sided(rows, paths, log), text.alignment)


def read_text(
    text: str | Path | ParallelText, read: Callable[[str | Path], Iterator[bytes]] = text_lines, log: Log = no_log
) -> LmText:
    """Read a tokenised text, one sentence a line; see `read_rows`."""
    target, source, positions = NumberedText(), NumberedText(), array("i")
    for row in read_rows(text, read, log):
        target.add(row.target)
        source.add(row.source or b"")
        positions.extend(row.affiliations)
    sides = {target: text.target, source: text.source} if isinstance(text, ParallelText) else {target: text}
    for side, path in sides.items():
        if not side.ids:
            raise UserError(f"{display_name(path)}: has no words; give a tokenised text, one sentence a line")
    if not isinstance(text, ParallelText):
        return LmText(target, None, Phrases.from_lists([]))
    return LmText(target, source, Phrases(np.frombuffer(positions, np.int32), target.sentences.offsets))


class Ngrams:
    """The n-grams of some sentences, extracted from one array on demand."""

    def __init__(
        self, sentences: Phrases, order: int, source: AffiliatedSource | None = None, source_words: int = 0
    ) -> None:
        """Concatenate the sentences, each after n - 1 symbols `<s>` and before one `</s>`; both have the id 1."""
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
