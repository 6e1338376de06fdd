"""The positions of a text for which the phrase table has translations."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import cache, partial
from typing import NamedTuple

from moses_integration.decoder.model import LogLinearModel
from moses_integration.decoder.phrases import Words, spans
from moses_integration.decoder.position_tags import MARK, tag_word
from phrasescore.errors import UserError
from phrasescore.words import quote


class Phrase(NamedTuple):
    """A source phrase of the text, with its translation options."""

    words: Words
    targets: tuple[Words, ...]
    """The translations within the table limit, in the table's order."""
    lines: tuple[bytes, ...]
    """Their lines in the phrase table."""


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


def find_positions(model: LogLinearModel, sentences: Iterable[Words], longest: int) -> Iterator[Position]:
    """Yield each span of at most `longest` words that the model's table translates.

    Keep only the best options of a phrase, up to the table limit, ranked as in the search
    (`LogLinearModel.translations`).
    """
    find_phrase = cache(partial(_find_phrase, model))
    for number, sentence in enumerate(sentences):
        for start, end in spans(sentence, longest):
            phrase = find_phrase(sentence[start : end + 1])
            if phrase is not None:
                yield Position(number, start, end, phrase)


def _find_phrase(model: LogLinearModel, words: Words) -> Phrase | None:
    assert model.table is not None
    lines = model.table.lines(words)
    if not lines:
        return None
    every = model.all_translations(words)
    assert every is not None
    # Sort, so that options with equal scores keep their order.
    kept = sorted(model.best(every))
    if any(MARK in lines[i] for i in kept):
        raise UserError(
            f"{model.table.path}: a line for `{quote(b' '.join(words))}` has U+FDD0, which marks position tags; "
            "remove the line"
        )
    return Phrase(words, tuple(every.targets[i].words for i in kept), tuple(lines[i] for i in kept))


def index_text(sentences: Sequence[Words], positions: Iterable[Position]) -> list[Words]:
    """Return the indexed text, with the fewest tags that make each position unique.

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


def copies(
    model: LogLinearModel, sentences: Sequence[Words], positions: Iterable[Position], text: Sequence[Words]
) -> set[Copy]:
    """Return the words without a translation option of their own; `text` is the indexed text."""
    translated = {(one.sentence, one.start) for one in positions if one.start == one.end}
    copied = set()
    for number, (words, tagged) in enumerate(zip(sentences, text, strict=True)):
        for start, (word, name) in enumerate(zip(words, tagged, strict=True)):
            if (number, start) not in translated:
                options = model.all_translations((word,))
                assert options is not None
                copied.add(Copy(word, name, (name,) if options.targets[0].words else ()))
    return copied
