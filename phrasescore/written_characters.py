"""What is read as one character though it is written by several: a letter with its accents, an emoji with its joiners.

Programs that move blanks about, as tokenisers, know some characters only: sacremoses takes a combining mark, a joiner
or a letter of a script younger than its tables for punctuation, and writes blanks around it. Shown one character that
it knows in the place of each, it says where blanks belong, and the text itself stays whole.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Callable, Collection, Iterator, Mapping
from itertools import chain

_JOINER = "\u200d"
_FLAG_LETTERS = frozenset(map(chr, range(0x1F1E6, 0x1F200)))
_SKIN_TONES = frozenset(map(chr, range(0x1F3FB, 0x1F400)))
# Marks, format characters and alphabets are in the planes 0 and 1, tags and more variation selectors in 14.
_PLACES = (range(0x20000), range(0xE0000, 0xE0200))
# An Armenian question mark stands in its word; Hebrew abbreviations and compounds, Arabic numbers.
_INSIDE_WORDS = frozenset("՚՛՜՞՟־׳״٫٬")
# Of no abbreviation, and of no script whose words are joined.
_STAND_INS = {"Ll": "a", "Nd": "0"} | dict.fromkeys(("Lu", "Lt", "Lm", "Lo"), "ℵ")


def is_of_word(character: str) -> bool:
    """Whether a character belongs to what it follows, whatever that is.

    A combining mark, a format character (Unicode's Cf: joiners, the soft hyphen, marks of direction), a skin tone, or
    the punctuation that some scripts have inside of words.
    """
    category = unicodedata.category(character)
    return category[0] == "M" or category == "Cf" or character in _SKIN_TONES or character in _INSIDE_WORDS


class WrittenCharacters:
    """Tells the characters of a text apart, and shows them to a program as some that it knows.

    A character is one that is not `extending`, with those that are behind it; after a blank, those before it, too. A
    symbol behind a joiner belongs to the symbol before, and two letters of a flag are one character.
    """

    def __init__(self, extending: Collection[str], stand_ins: Mapping[str, str]) -> None:
        """Take what the program sees nothing of, and what it sees in the place of some others."""
        self._extending, self._stand_ins = frozenset(extending), stand_ins
        self._special = self._extending | stand_ins.keys() | _FLAG_LETTERS

    def keep_whole(self, text: str, program: Callable[[str], str]) -> str:
        """Return what a program that moves blanks makes of a text, but with no blank inside of a character.

        If it does more than that to what it is shown, it is shown the text as it is.
        """
        if text.isascii() or self._special.isdisjoint(text):
            return program(text)
        characters = self._characters(text)
        moved = program("".join(map(self._stand_in, characters)))
        rest = [character for character in characters if character != " "]
        if len(moved) - moved.count(" ") != len(rest):
            return program(text)
        following = iter(rest)
        return "".join(" " if shown == " " else next(following) for shown in moved)

    def _characters(self, text: str) -> list[str]:
        """Return the characters and the blanks of a text."""
        characters = [" "]
        for part in text:
            last = characters[-1]
            if " " not in (part, last) and (part in self._extending or self._is_open(last, part)):
                characters[-1] += part
            else:
                characters.append(part)
        return characters[1:]

    def _is_open(self, character: str, part: str) -> bool:
        """Whether what is no extending part belongs to the character before it."""
        if character[-1] == _JOINER and not part.isascii() and unicodedata.category(part)[0] == "S":
            return True
        return (character in _FLAG_LETTERS and part in _FLAG_LETTERS) or self._extending.issuperset(character)

    def _stand_in(self, character: str) -> str:
        """Return the one part of a character that is shown, or what is in its place."""
        base = next((part for part in character if part not in self._extending), character[0])
        return self._stand_ins.get(base, base)


def extending_characters(known: Collection[str]) -> list[str]:
    """Return what belongs to the character before it but is not `known` as a part of words."""
    return [character for character in _characters_in(*_PLACES) if is_of_word(character) and character not in known]


def unknown_letters(known: Collection[str], are_words: Callable[[str], bool]) -> dict[str, str]:
    """Return the letters and digits that are not `known`, with one that is for each, but those that are words alone."""
    return {
        character: _STAND_INS[unicodedata.category(character)]
        for character in _characters_in(*_PLACES)
        if unicodedata.category(character) in _STAND_INS and character not in known and not are_words(character)
    }


def clause_ends() -> list[str]:
    """Return the punctuation of scripts other than the Latin and Chinese that stands behind a word, as a full stop."""
    places = range(0x37E, 0x2000), range(0xA000, 0xFE00), range(0x10000, 0x20000)
    return [
        character
        for character in _characters_in(*places)
        if unicodedata.category(character) == "Po" and character not in _INSIDE_WORDS
    ]


def _characters_in(*places: range) -> Iterator[str]:
    return map(chr, chain(*places))
