"""Factored tables: each word is `surface|POS|...`, and selected factors form the words of the network.

Moses separates factors by `|`. All words of one side of a table have the same number of factors; the other side may
have a different number: `-translation-factors 0-0,1` creates a table with one source factor and two target factors.
Positions count from 0 within the word as the table spells it. Moses' parser: moses/Word.cpp, `CreateFromString`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Self

from phrasescore.table.entry import FACTOR_DELIMITER, Entry, LineFault, check_factors, count_factors
from phrasescore.text import counted

_MOST = 100
"""Upper bound of positions; Moses is compiled for four factors."""


@dataclass(frozen=True)
class Factors:
    """The factors that form a word of the network, joined by `|` in this order."""

    positions: tuple[int, ...] = (0,)

    @classmethod
    def parse(cls, text: str) -> Self:
        """Parse a list of positions such as `0,1`; anything else is a ValueError."""
        if not re.fullmatch(r"[0-9]{1,2}(,[0-9]{1,2})*", text):
            raise ValueError(f"`{text}` is not a list of factors, such as 0 or 0,1; factors count from 0")
        return cls.of([int(position) for position in text.split(",")])

    @classmethod
    def of(cls, positions: object) -> Self:
        """Return the factors at the given positions; anything but a list of distinct integers is a ValueError."""
        if not isinstance(positions, list) or not all(type(one) is int and 0 <= one < _MOST for one in positions):
            raise ValueError(f"`{positions!r:.60}` is not a list of factors; factors count from 0")
        if not positions or len(set(positions)) < len(positions):
            raise ValueError("names no factor, or one twice; name each factor once")
        return cls(tuple(positions))

    def __str__(self) -> str:
        return ",".join(map(str, self.positions))

    def network_words(self, phrase: bytes) -> bytes:
        """Convert a phrase of a table to the words of the network; words without factors stay unchanged.

        The phrase has single spaces between words and passed `require_in`.
        """
        if FACTOR_DELIMITER not in phrase:
            return phrase
        words = (word.split(FACTOR_DELIMITER) for word in phrase.split(b" "))
        return b" ".join(FACTOR_DELIMITER.join([word[position] for position in self.positions]) for word in words)

    def network_phrases(self, entries: Iterable[Entry]) -> tuple[list[bytes], list[bytes]]:
        """Convert the source and the target phrases of table lines to the words of the network."""
        pairs = [(self.network_words(entry.source), self.network_words(entry.target)) for entry in entries]
        return [source for source, _ in pairs], [target for _, target in pairs]

    def of_phrase(self, phrase: bytes, field: str) -> bytes:
        """Validate a phrase that is not from a table, and convert it; `field` is its name in messages."""
        check_factors(field, phrase)
        self.require_in(count_factors(phrase), field)
        return self.network_words(phrase)

    def require_in(self, factors: int, field: str) -> None:
        """Raise LineFault if words with `factors` factors lack a selected one; words without factors are valid."""
        if 1 < factors <= max(self.positions):
            raise LineFault(
                field,
                f"has words of {factors} factors, but the network is for factor {max(self.positions)}, counted from 0",
                "train on another factor, or give a table that has it",
                is_about_the_table=True,
            )


SURFACE = Factors()
"""The first factor, by convention the surface form."""


def describe_factors(source: int, target: int) -> str:
    """Return the number of factors of both sides as text."""
    return f"{counted(source, 'factor')} per source word, {counted(target, 'factor')} per target word"
