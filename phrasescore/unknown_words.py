"""Counts of words outside the vocabulary of a model."""

from __future__ import annotations

from dataclasses import dataclass

from phrasescore.text import Log

_MANY = 0.2
"""A fraction of the words; the model can hardly translate a text with more unknown words."""


@dataclass
class UnknownWords:
    """Counts the words of one side and the unknown words among them."""

    side: str = "source"
    words: int = 0
    unknown: int = 0

    def add(self, unknown: int, words: int) -> None:
        """Add `words` words, of which `unknown` are unknown."""
        self.unknown += unknown
        self.words += words

    def __str__(self) -> str:
        """Return the fraction of unknown words, as the subject of a sentence."""
        share = f" ({self.unknown / self.words:.0%})" if self.words else ""
        return f"{self.unknown:,} of {self.words:,} {self.side} words{share}"

    def warn_if_many(self, text: str, model: str, log: Log) -> None:
        """Call `log` if a translated text has so many unknown words that its translation is unreliable.

        Args:
            text: the name of the text.
            model: the name of the model.
            log: called with the warning.
        """
        if self.unknown and self.unknown >= _MANY * self.words:
            log(
                f"{text}: {self} are unknown to the {model} and cannot be translated; check that the text is in the "
                f"source language, and tokenised and cased as the {model} was trained"
            )
