"""How many words of a text a model does not have in its vocabulary."""

from __future__ import annotations

from dataclasses import dataclass

from phrasescore.text import Say

_MANY = 0.2
"""A share of the words. Where so many are unknown, the text is hardly one that the model can translate."""


@dataclass
class UnknownWords:
    """Counts the words of one side, and those that are unknown."""

    side: str = "source"
    words: int = 0
    unknown: int = 0

    def add(self, unknown: int, words: int) -> None:
        """Count more words, of which so many are unknown."""
        self.unknown += unknown
        self.words += words

    def __str__(self) -> str:
        """Return how many words are unknown, as the subject of a sentence."""
        share = f" ({self.unknown / self.words:.0%})" if self.words else ""
        return f"{self.unknown:,} of {self.words:,} {self.side} words{share}"

    def warn_if_many(self, text: str, model: str, say: Say) -> None:
        """Tell `say` if a text that was translated has so many unknown words that its translation means little.

        Args:
            text: its name.
            model: what does not know the words.
            say: told a sentence.
        """
        if self.unknown and self.unknown >= _MANY * self.words:
            say(
                f"{text}: {self} are unknown to the {model} and cannot be translated; check that the text is in the "
                f"source language, and tokenised and cased as the {model} was trained"
            )
