"""Numbers of words outside the vocabulary of a model."""

from __future__ import annotations

from dataclasses import astuple, dataclass
from operator import add

from phrasescore.text import Log

MANY_UNKNOWN = 0.3
"""A share of words. Scores and translations are unreliable if a larger share is unknown."""


@dataclass(frozen=True)
class WordCounts:
    """Numbers of words looked up in the vocabularies of a model, and of unknown words among them.

    Source and target are those of the phrase table, also for networks that predict the source.
    """

    source: int = 0
    source_unknown: int = 0
    target: int = 0
    target_unknown: int = 0

    def __add__(self, other: WordCounts) -> WordCounts:
        return WordCounts(*map(add, astuple(self), astuple(other)))

    def __str__(self) -> str:
        """Return the numbers and shares of unknown words, as the subject of a sentence."""
        sides = ("source", self.source_unknown, self.source), ("target", self.target_unknown, self.target)
        return " and ".join(
            f"{unknown:,} of {words:,} {side} words ({unknown / words:.0%})" for side, unknown, words in sides if words
        )

    def shares(self) -> dict[str, float]:
        """Return the share of unknown words of each side that has words, by `source` and `target`."""
        sides = ("source", self.source_unknown, self.source), ("target", self.target_unknown, self.target)
        return {side: unknown / words for side, unknown, words in sides if words}

    def are_many_unknown(self) -> bool:
        """Return whether so many words of a side are unknown that scores are unreliable."""
        return any(share >= MANY_UNKNOWN for share in self.shares().values())

    def warn_if_many_unknown(self, text: str, model: str, log: Log) -> None:
        """Warn if so many words of a text to translate are unknown to a model that its translation is unreliable."""
        if self.are_many_unknown():
            log(
                f"{text}: {self} are unknown to the {model} and cannot be translated; check that the text is in the "
                f"source language, and tokenised and cased as the {model} was trained"
            )
