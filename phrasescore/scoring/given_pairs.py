"""Validation of phrase pairs of Python callers, alone or in sentences."""

from __future__ import annotations

import operator
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from phrasescore.errors import UserError
from phrasescore.scoring.occurrences import InSentence
from phrasescore.table.entry import LineFault, check_length
from phrasescore.table.factors import Factors
from phrasescore.words import join_words

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
    """Yield source and target of each pair, with single spaces between words, and the given factors of each word.

    `place` precedes the number of the pair in messages.

    Raises:
        TypeError: an item is not a pair of texts.
        UserError: a source has no words, or a text is not a valid phrase.
    """
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
    """Yield the sentence, position and translation of each phrase.

    Raises:
        TypeError: an item is not a sentence, a pair of integers and a text.
        UserError: a phrase has no words or is not in the sentence, or a text is not a valid sentence or phrase.
    """
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
    """Return a text with single spaces between words; `name` is its name in messages."""
    try:
        words = join_words(text.encode() if isinstance(text, str) else text)
    except UnicodeEncodeError as error:
        raise UserError(f"{name}: has half of a surrogate pair, which is no character; fix it") from error
    if b"\n" in words:
        raise UserError(f"{name}: has a line end, which no word has; strip it")
    return words


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
