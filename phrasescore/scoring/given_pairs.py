"""Phrase pairs as a program gives them, alone or in a sentence: checked, with one blank between words."""

from __future__ import annotations

import operator
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from phrasescore.errors import UserError
from phrasescore.table.entry import LineFault, check_length
from phrasescore.table.factors import Factors
from phrasescore.words import join_words

Text = str | bytes
_SIDES = ("source", "target")


@runtime_checkable
class Frame(Protocol):
    """A pandas DataFrame, or what is like one."""

    @property
    def columns(self) -> Any:
        """The names of its columns."""
        ...

    def __getitem__(self, name: str) -> Any:
        """Return a column."""
        ...


GivenPairs = Iterable[Sequence[Text]] | NDArray[Any] | Frame
"""Source and target phrases: pairs, an array with a pair in each row, or a DataFrame (columns `source`, `target`)."""


def clean_pairs(pairs: GivenPairs, factors: Factors | None = None) -> Iterator[tuple[bytes, bytes]]:
    """Yield source and target of each pair, with `factors` those of words that have several.

    Raises:
        TypeError: they are no pairs of texts.
        UserError: a source has no words, or a text cannot be a phrase.
    """
    for number, pair in enumerate(_pairs_of(pairs), 1):
        if (
            not isinstance(pair, tuple | list | np.ndarray)
            or len(pair) != 2
            or not all(isinstance(one, Text) for one in pair)
        ):
            raise TypeError(f"pair {number}: is {pair!r:.60}; give a source and a target phrase, str or bytes")
        source, target = (
            _clean_phrase(text, f"pair {number}", side, factors) for side, text in zip(_SIDES, pair, strict=True)
        )
        if not source:
            raise UserError(f"pair {number}, source: has no words; give a phrase")
        yield source, target


def clean_sentence(sentence: Text) -> bytes:
    """Return a sentence that phrases stand in.

    Raises:
        TypeError: it is no text.
        UserError: it cannot be one.
    """
    if not isinstance(sentence, Text):
        raise TypeError(f"sentence: is {sentence!r:.60}; give str or bytes")
    return clean_text(sentence, "sentence")


def clean_places(
    phrases: Sequence[tuple[tuple[int, int], Text]], words: int
) -> Iterator[tuple[tuple[int, int], bytes]]:
    """Yield where each phrase begins and, exclusively, ends in a sentence of so many words, and its translation.

    Raises:
        TypeError: a place is not two whole numbers, or a translation is no text.
        UserError: a phrase has no words or is not in the sentence, or a translation cannot be a phrase.
    """
    for number, phrase in enumerate(phrases, 1):
        try:
            (first, end), target = phrase
            place = operator.index(first), operator.index(end)
        except (TypeError, ValueError) as error:
            raise TypeError(
                f"phrase {number}: is {phrase!r:.60}; give ((first, end), translation), the places whole numbers"
            ) from error
        if not isinstance(target, Text):
            raise TypeError(f"phrase {number}: is translated by {target!r:.60}; give str or bytes")
        if not 0 <= place[0] < place[1] <= words:
            raise UserError(
                f"phrase {number}: words {first} to {end} are no phrase of a sentence of {words} words; give the "
                "places of its first word and behind its last one, from 0"
            )
        yield place, _clean_phrase(target, f"phrase {number}", "target")


def _clean_phrase(phrase: Text, name: str, side: str, factors: Factors | None = None) -> bytes:
    """Return a phrase with one blank between words.

    Raises:
        UserError: see `clean_text`, or it is too long, or lacks factors.
    """
    words = clean_text(phrase, f"{name}, {side}")
    try:
        return given_phrase(side, words, factors)
    except LineFault as fault:
        raise UserError(f"{name}, {fault}") from fault


def given_phrase(side: str, words: bytes, factors: Factors | None) -> bytes:
    """Return a phrase, with one space between words, in the words of a network that learnt from a table.

    `factors` are those that make its words; None if it learnt from text.

    Raises:
        LineFault: the phrase is too long, or lacks factors.
    """
    check_length(side, words)
    return words if factors is None else factors.of_phrase(words, side)


def clean_text(text: Text, name: str) -> bytes:
    """Return a text with one blank between words; `name` is what messages call it.

    Raises:
        UserError: it has a line end, or cannot be written as UTF-8.
    """
    try:
        words = join_words(text.encode() if isinstance(text, str) else text)
    except UnicodeEncodeError as error:
        raise UserError(f"{name}: has half of a surrogate pair, which is no character; mend it") from error
    if b"\n" in words:
        raise UserError(f"{name}: has a line end, which no word has; strip it")
    return words


def _pairs_of(pairs: GivenPairs) -> Iterable[Any]:
    """Return what should be pairs.

    Raises:
        TypeError: it is no iterable, or a frame without the columns.
    """
    if isinstance(pairs, Frame):
        if missing := [name for name in ("source", "target") if name not in pairs.columns]:
            raise TypeError(f"pairs: have no column `{missing[0]}`; give a table with `source` and `target`")
        return zip(pairs["source"], pairs["target"], strict=True)
    given: Any = pairs
    if isinstance(given, Text) or not isinstance(given, Iterable):
        raise TypeError(f"pairs: are of type {type(given).__name__}; give a list of pairs, source and target each")
    return given
