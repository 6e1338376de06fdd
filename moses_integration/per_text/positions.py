"""The positions of a text for which a system has translation options."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from moses_integration.decoder.model import LogLinearModel, Translations
from moses_integration.decoder.phrases import Words, spans
from moses_integration.per_text.position_tags import MARK, tag_word


class Phrase(NamedTuple):
    """A source phrase of the text."""

    words: Words
    options: Translations
    """The best ones within the table limit, in the table's order."""

    @property
    def targets(self) -> list[Words]:
        """The translations."""
        return [target.words for target in self.options.targets]

    @property
    def is_copied(self) -> bool:
        """Whether it is a word without a translation option of its own."""
        return self.options.targets[0].scores is None


class Position(NamedTuple):
    """An occurrence of a source phrase."""

    sentence: int
    """Counted from 0, like `start` and `end`; `end` is inclusive."""
    start: int
    end: int
    phrase: Phrase


class Copy(NamedTuple):
    """A word without a translation option of its own, and the decoder's output for it."""

    word: bytes
    name: bytes
    """The word in the indexed text, with or without a position tag."""
    target: Words
    """The word as copied to the output, or empty if the decoder drops unknown words."""


@dataclass(frozen=True)
class Positions:
    """The positions of a text; each iteration finds them again, because those of a long text need much memory.

    Keep only the best options of a phrase, up to the table limit, ranked as in the search.
    """

    model: LogLinearModel
    """The system; its weights rank the options."""
    sentences: Sequence[Words]
    longest: int
    """Length of the longest source phrases."""
    phrases: dict[Words, Phrase | None] = field(default_factory=dict)
    """The phrases found so far, and None for phrases without options; the most recently used is last."""

    def __iter__(self) -> Iterator[Position]:
        """Yield the positions by sentence, then by length, then by the first word."""
        for number, sentence in enumerate(self.sentences):
            for start, end in spans(sentence, self.longest):
                words = sentence[start : end + 1]
                phrase = self.phrases.pop(words) if words in self.phrases else self._find(words)
                self.phrases[words] = phrase
                if phrase is not None:
                    yield Position(number, start, end, phrase)

    def _find(self, words: Words) -> Phrase | None:
        every = self.model.all_translations(words)
        return Phrase(words, every.take(self.model.selected(every))) if every else None


def index_text(sentences: Sequence[Words], positions: Iterable[Position]) -> list[Words]:
    """Return the indexed text, with the fewest tags that make each position of a translated phrase unique.

    One tagged word identifies the position of the whole phrase. A word without a translation of its own usually gets no
    tag, because the decoder copies it and the language model may have it in its vocabulary. If all words of a phrase
    are of this kind, the last one gets a tag.
    """
    text = [list(sentence) for sentence in sentences]
    # The shorter phrases of a sentence come first.
    for number, start, end, _ in positions:
        words = text[number]
        if not any(MARK in word for word in words[start : end + 1]):
            words[end] = tag_word(words[end], number, end)
    return [tuple(sentence) for sentence in text]


def copies(positions: Iterable[Position], text: Sequence[Words]) -> set[Copy]:
    """Return the words without a translation option of their own; `text` is the indexed text."""
    return {
        Copy(words[0], name := text[number][start], (name,) if options.targets[0].words else ())
        for number, start, _, (words, options) in positions
        if options.targets[0].scores is None
    }
