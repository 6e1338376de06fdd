"""The places of a text where the phrase table has something to say."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from moses_integration.decoder.model import LogLinearModel
from moses_integration.decoder.phrases import Words, spans
from moses_integration.placed.names import MARK, name_of
from phrasescore.errors import UserError
from phrasescore.words import quote


class Phrase(NamedTuple):
    """A source phrase of the text."""

    words: Words
    targets: tuple[Words, ...]
    """Its options: translations within the table limit, in the table's order."""
    lines: tuple[bytes, ...]
    """Their lines of the phrase table, with their ends."""


class Place(NamedTuple):
    """Where a phrase stands."""

    sentence: int
    """From 0, as `start` and `end`, which is inclusive."""
    start: int
    end: int
    phrase: Phrase


class Copy(NamedTuple):
    """A word that no option translates alone, and what the decoder makes of it."""

    word: bytes
    name: bytes
    """What the text has in its place; the word itself if it needs no name."""
    target: Words
    """The same, or nothing where unknown words are dropped."""


def find_places(model: LogLinearModel, sentences: Iterable[Words], longest: int) -> Iterator[Place]:
    """Yield each span of at most `longest` words that the model's table translates.

    Only the best options of a phrase are kept, up to the table limit, by all the features of the model as in its search
    (`LogLinearModel.translations`).

    Raises:
        UserError: a line of the table is malformed, or has the mark of names.
    """
    phrases: dict[Words, Phrase | None] = {}
    for number, sentence in enumerate(sentences):
        for start, end in spans(sentence, longest):
            words = sentence[start : end + 1]
            if words not in phrases:
                phrases[words] = _find_phrase(model, words)
            phrase = phrases[words]
            if phrase is not None:
                yield Place(number, start, end, phrase)


def _find_phrase(model: LogLinearModel, words: Words) -> Phrase | None:
    assert model.table is not None
    lines = model.table.lines(words)
    if not lines:
        return None
    every = model.all_translations(words)
    assert every is not None
    # Options of equal scores keep their order then.
    kept = sorted(model.best(every))
    if any(MARK in lines[i] for i in kept):
        raise UserError(
            f"{model.table.path}: a line for `{quote(b' '.join(words))}` has U+FDD0, which marks position tags; "
            "remove the line"
        )
    return Phrase(words, tuple(every.targets[i].words for i in kept), tuple(lines[i] for i in kept))


def named_text(sentences: Sequence[Words], places: Iterable[Place]) -> list[Words]:
    """Return the text with names, as many as are needed to tell the places from each other and from all others.

    Each place has a named word, for one word's name tells where all of a phrase stands. A word that no option
    translates alone keeps its form: the decoder copies it, and the language model may know it. But if other words
    without translation are all that a phrase of the table has, its last one gets a name.
    """
    text = [list(sentence) for sentence in sentences]
    named: list[set[int]] = [set() for _ in sentences]
    # The shorter ones of a sentence come first.
    for place in places:
        of_sentence = named[place.sentence]
        if of_sentence.isdisjoint(range(place.start, place.end + 1)):
            of_sentence.add(place.end)
            word = text[place.sentence][place.end]
            text[place.sentence][place.end] = name_of(word, place.sentence, place.end)
    return [tuple(sentence) for sentence in text]


def copies(
    model: LogLinearModel, sentences: Sequence[Words], places: Iterable[Place], text: Sequence[Words]
) -> set[Copy]:
    """Return the words that no option translates alone; `text` has the names."""
    translated = {(place.sentence, place.start) for place in places if place.start == place.end}
    untranslated = {
        (word, name)
        for number, (words, names) in enumerate(zip(sentences, text, strict=True))
        for start, (word, name) in enumerate(zip(words, names, strict=True))
        if (number, start) not in translated
    }
    return {Copy(word, name, (name,) if _is_kept(model, word) else ()) for word, name in untranslated}


def _is_kept(model: LogLinearModel, word: bytes) -> bool:
    copied = model.all_translations((word,))
    assert copied is not None
    return copied.targets[0].words != ()
