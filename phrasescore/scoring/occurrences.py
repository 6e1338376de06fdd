"""Occurrences of phrase pairs, the input of every scorer, and the validation of those that Python callers give.

Shapes: N occurrences.
"""

from __future__ import annotations

import operator
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby, pairwise
from typing import Any, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from phrasescore.errors import UserError
from phrasescore.table.entry import Factors, LineFault, check_length
from phrasescore.words import join_words, split_words


@dataclass(frozen=True)
class Context:
    """The sentences of some occurrences, and the positions of their source phrases."""

    sentences: Sequence[bytes]
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
    """Phrase pairs, or sentences and their translations, optionally with the sentence in which each source occurs."""

    sources: Sequence[bytes]
    """Words, separated by single spaces, as in the phrase table that the scorer was trained on."""
    targets: Sequence[bytes]
    context: Context | None = None
    """None for phrases alone."""

    def __len__(self) -> int:
        return len(self.targets)

    def in_context(self) -> Context:
        """Return the context of each phrase; a phrase alone is its own sentence."""
        if self.context is not None:
            return self.context
        length_N = np.array([len(split_words(source)) for source in self.sources], np.int64)
        return Context(self.sources, np.arange(len(self)), np.zeros_like(length_N), length_N)

    def chunks(self, size: int) -> Iterator[Occurrences]:
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


Text = str | bytes


@runtime_checkable
class Frame(Protocol):
    """A pandas DataFrame, or an object with the same interface."""

    columns: Any

    def __getitem__(self, name: str) -> Any:
        """Return a column."""


GivenPhrases = Iterable[tuple[Text, tuple[int, int], Text]] | Frame
"""Sentence, (first word, word after the last one) and translation of each phrase.

A DataFrame has the columns `sentence`, `start`, `end`, `target`.
"""
GivenPairs = Iterable[Sequence[Text]] | NDArray[Any] | Frame
"""Source and target phrases: pairs, an array with a pair in each row, or a DataFrame (columns `source`, `target`)."""


def clean_pairs(
    pairs: GivenPairs, factors: Factors | None = None, place: str = "pair"
) -> Iterator[tuple[bytes, bytes]]:
    """Yield source and target of each pair as words of the given factors; `place` and a number name it in messages."""
    rows = _rows_of(pairs, "pairs", ("source", "target"), "a list of pairs, source and target each")
    for number, pair in enumerate(rows, 1):
        if (
            not isinstance(pair, tuple | list | np.ndarray)
            or len(pair) != 2
            or not all(isinstance(x, Text) for x in pair)
        ):
            raise TypeError(f"{place} {number}: is {pair!r:.60}; give a source and a target phrase, str or bytes")
        source = _clean_phrase(pair[0], f"{place} {number}", "source", factors)
        if not source:
            raise UserError(f"{place} {number}, source: has no words; give a phrase")
        yield source, _clean_phrase(pair[1], f"{place} {number}", "target", factors)


def clean_phrases(phrases: GivenPhrases) -> Iterator[InSentence]:
    """Yield the sentence, position and translation of each phrase."""
    columns, wanted = ("sentence", "start", "end", "target"), "(sentence, (first, end), translation)"
    rows = _rows_of(phrases, "phrases", columns, f"a list of phrases, {wanted} each")
    if isinstance(phrases, Frame):
        rows = ((sentence, (start, end), target) for sentence, start, end, target in rows)
    for number, phrase in enumerate(rows, 1):
        try:
            sentence, (first, end), target = phrase
            span = operator.index(first), operator.index(end)
        except (TypeError, ValueError) as error:
            message = f"phrase {number}: is {phrase!r:.60}; give {wanted}, first and end whole numbers"
            raise TypeError(message) from error
        if not isinstance(sentence, Text) or not isinstance(target, Text):
            raise TypeError(f"phrase {number}: is {phrase!r:.60}; give sentence and translation as str or bytes")
        words = clean_text(sentence, f"phrase {number}, sentence")
        length = words.count(b" ") + 1 if words else 0
        if not 0 <= span[0] < span[1] <= length:
            raise UserError(
                f"phrase {number}: words {first} to {end} are no phrase of a sentence of {length} words; give the "
                "positions of its first word and of the word after its last one, from 0"
            )
        yield words, span, _clean_phrase(target, f"phrase {number}", "target")


def _clean_phrase(phrase: Text, name: str, side: str, factors: Factors | None = None) -> bytes:
    words = clean_text(phrase, f"{name}, {side}")
    try:
        check_length(side, words)
        return words if factors is None else factors.of_phrase(words, side)
    except LineFault as fault:
        raise UserError(f"{name}, {fault}") from fault


def clean_text(text: Text, name: str) -> bytes:
    """Return a text with single spaces between words; `name` is its name in messages.

    A carriage return at its end is dropped, as by the readers of files.
    """
    try:
        words = join_words((text.encode() if isinstance(text, str) else text).removesuffix(b"\r"))
    except UnicodeEncodeError as error:
        raise UserError(f"{name}: has half of a surrogate pair, which is no character; fix it") from error
    if b"\n" in words:
        raise UserError(f"{name}: has a line end, which no word has; strip it")
    return words


def clean_texts(sentences: Iterable[Text], name: str) -> Iterator[bytes]:
    """Yield sentences with single spaces between words; messages name each with `name` and its number."""
    if isinstance(sentences, Text):
        raise TypeError(f"{name}: is one text; give a list")
    for number, sentence in enumerate(sentences, 1):
        if not isinstance(sentence, Text):
            raise TypeError(f"{name} {number}: is of type {type(sentence).__name__}; give str or bytes")
        yield clean_text(sentence, f"{name} {number}")


def _rows_of(given: Any, name: str, columns: Sequence[str], wanted: str) -> Iterable[Any]:
    """Return the rows of an argument before validation; raise a TypeError if it has none."""
    if isinstance(given, Frame):
        if missing := [column for column in columns if column not in given.columns]:
            names = ", ".join(f"`{column}`" for column in columns)
            raise TypeError(f"{name}: have no column `{missing[0]}`; give a table with {names}")
        return zip(*(given[column] for column in columns), strict=True)
    if isinstance(given, Text) or not isinstance(given, Iterable):
        raise TypeError(f"{name}: are of type {type(given).__name__}; give {wanted}")
    return given
