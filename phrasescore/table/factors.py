"""Factored tables: each word is `surface|POS|...`, and some of its factors make the word that a network knows.

Moses separates factors by `|`. The words of one side of a table all have the same number of factors, the other side may
have another number: `-translation-factors 0-0,1` makes a table of one source factor and two target factors. Positions
count from 0 within the word as the table spells it. Moses' reader: moses/Word.cpp, `CreateFromString`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Self

from phrasescore.table.entry import FACTOR_DELIMITER, Entry, LineFault, check_factors, count_factors
from phrasescore.text import counted

_MOST = 100
"""More positions than a table has factors: Moses is compiled for four."""


@dataclass(frozen=True)
class Factors:
    """The factors that make a network's word, joined by `|` in this order."""

    positions: tuple[int, ...] = (0,)

    @classmethod
    def parse(cls, text: str) -> Self:
        """Return the factors that a text such as `0,1` lists.

        Raises:
            ValueError: it is not a list of different positions.
        """
        if not re.fullmatch(r"[0-9]{1,2}(,[0-9]{1,2})*", text):
            raise ValueError(f"`{text}` is not a list of factors, such as 0 or 0,1; factors count from 0")
        return cls.of([int(position) for position in text.split(",")])

    @classmethod
    def of(cls, positions: object) -> Self:
        """Return the factors at some positions, a list of numbers.

        Raises:
            ValueError: it is not a list of different positions.
        """
        if not isinstance(positions, list) or not all(type(one) is int and 0 <= one < _MOST for one in positions):
            raise ValueError(f"`{positions!r:.60}` is not a list of factors; factors count from 0")
        if not positions or len(set(positions)) < len(positions):
            raise ValueError("names no factor, or one twice; name each factor once")
        return cls(tuple(positions))

    def __str__(self) -> str:
        return ",".join(map(str, self.positions))

    def network_words(self, phrase: bytes) -> bytes:
        """Return a phrase of a table in the words that a network knows; words without factors stay as they are.

        The phrase has one space between words and passed `require_in`.
        """
        if FACTOR_DELIMITER not in phrase:
            return phrase
        return b" ".join(map(self._network_word, phrase.split(b" ")))

    def _network_word(self, word: bytes) -> bytes:
        factors = word.split(FACTOR_DELIMITER)
        return FACTOR_DELIMITER.join([factors[position] for position in self.positions])

    def network_phrases(self, entries: Iterable[Entry]) -> tuple[list[bytes], list[bytes]]:
        """Return the source and the target phrases of lines of a table in the words that a network knows."""
        pairs = [(self.network_words(entry.source), self.network_words(entry.target)) for entry in entries]
        return [source for source, _ in pairs], [target for _, target in pairs]

    def of_phrase(self, phrase: bytes, field: str) -> bytes:
        """Check a phrase that is not of a table, and return it in the words that a network knows.

        Raises:
            LineFault: its words differ in the number of their factors, or lack one; `field` is what messages call it.
        """
        check_factors(field, phrase)
        self.require_in(count_factors(phrase), field)
        return self.network_words(phrase)

    def require_in(self, factors: int, field: str) -> None:
        """Check that words with so many factors have those that are wanted; words without factors pass.

        Raises:
            LineFault: they do not.
        """
        if 1 < factors <= max(self.positions):
            raise LineFault(
                field,
                f"has words of {factors} factors, but the network is for factor {max(self.positions)}, counted from 0",
                "train with another --factor, or give a table that has it",
                is_about_the_table=True,
            )


SURFACE = Factors()
"""The first factor, by convention the word as it is written."""


def describe_factors(source: int, target: int) -> str:
    """Return how many factors the words of both sides have, in words."""
    return f"{counted(source, 'factor')} per source word, {counted(target, 'factor')} per target word"
