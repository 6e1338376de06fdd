"""Phrase pairs as a program gives them: checked, with one blank between words."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, Protocol, runtime_checkable

from phrasescore.errors import UserError
from phrasescore.table.entry import LineFault, check_length
from phrasescore.words import join_words

Text = str | bytes


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


GivenPairs = Iterable[tuple[Text, Text]] | Frame
"""Source and target phrases; of a DataFrame the columns `source` and `target`."""


def clean_pairs(pairs: GivenPairs) -> Iterator[tuple[bytes, bytes]]:
    """Yield source and target of each pair.

    Raises:
        TypeError: they are no pairs of texts.
        UserError: a source has no words, or a phrase is too long.
    """
    for number, pair in enumerate(_pairs_of(pairs), 1):
        if not isinstance(pair, tuple | list) or len(pair) != 2 or not all(isinstance(one, Text) for one in pair):
            raise TypeError(f"pair {number}: is {pair!r:.60}; give a source and a target phrase, str or bytes")
        source, target = (join_words(phrase.encode() if isinstance(phrase, str) else phrase) for phrase in pair)
        if not source:
            raise UserError(f"pair {number}, source: has no words; give a phrase")
        try:
            check_length("source", source)
            check_length("target", target)
        except LineFault as fault:
            raise UserError(f"pair {number}, {fault}") from fault
        yield source, target


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
