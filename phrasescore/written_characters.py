"""Characters that consist of several code points: a letter with its accents, an emoji sequence with joiners.

Tokenisers support a limited set of characters: sacremoses treats combining marks, joiners and letters of recent scripts
as punctuation, and puts spaces around them. This module replaces each such character by a single supported character,
lets the program insert or remove spaces, and applies the spaces to the original text.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Callable, Collection, Iterator, Mapping
from itertools import chain

_JOINER = "\u200d"
_FLAG_LETTERS = frozenset(map(chr, range(0x1F1E6, 0x1F200)))
_SKIN_TONES = frozenset(map(chr, range(0x1F3FB, 0x1F400)))
# Marks, format characters and alphabets are in the planes 0 and 1; tags and more variation selectors in 14.
_PLACES = (range(0x20000), range(0xE0000, 0xE0200))
# Punctuation inside words: Armenian question marks, Hebrew abbreviations and compounds, Arabic numbers.
_INSIDE_WORDS = frozenset("՚՛՜՞՟־׳״٫٬")
# Letters that form no abbreviation and belong to no script without spaces.
_STAND_INS = {"Ll": "a", "Nd": "0"} | dict.fromkeys(("Lu", "Lt", "Lm", "Lo"), "ℵ")


def is_of_word(character: str) -> bool:
    """Return whether a character always belongs to the preceding character.

    These are combining marks, format characters (Unicode's Cf: joiners, the soft hyphen, directional marks), skin
    tones, and punctuation that some scripts have inside words.
    """
    category = unicodedata.category(character)
    return category[0] == "M" or category == "Cf" or character in _SKIN_TONES or character in _INSIDE_WORDS


class WrittenCharacters:
    """Segments a text into written characters, and maps them to characters that a program supports.

    A written character is a code point that is not `extending`, with the extending code points that follow it; after a
    space, extending code points also join the next character. A symbol after a joiner belongs to the symbol before it,
    and two flag letters are one character.
    """

    def __init__(self, extending: Collection[str], stand_ins: Mapping[str, str]) -> None:
        """Set the code points that are hidden from the program, and the substitutes of other code points."""
        self._extending, self._stand_ins = frozenset(extending), stand_ins
        self._special = self._extending | stand_ins.keys() | _FLAG_LETTERS

    def keep_whole(self, text: str, program: Callable[[str], str]) -> str:
        """Return the result of a program that changes spaces, without spaces inside written characters.

        If the program makes other changes to the substitutes, it is applied to the original text.
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
        """Return the written characters and the spaces of a text."""
        characters = [" "]
        for part in text:
            last = characters[-1]
            if " " not in (part, last) and (part in self._extending or self._is_open(last, part)):
                characters[-1] += part
            else:
                characters.append(part)
        return characters[1:]

    def _is_open(self, character: str, part: str) -> bool:
        """Return whether a code point that is not extending belongs to the character before it."""
        if character[-1] == _JOINER and not part.isascii() and unicodedata.category(part)[0] == "S":
            return True
        return (character in _FLAG_LETTERS and part in _FLAG_LETTERS) or self._extending.issuperset(character)

    def _stand_in(self, character: str) -> str:
        """Return the code point of a character that the program gets, or its substitute."""
        base = next((part for part in character if part not in self._extending), character[0])
        return self._stand_ins.get(base, base)


def extending_characters(known: Collection[str]) -> list[str]:
    """Return the code points that belong to the preceding character but are not in `known`."""
    return [character for character in _characters_in(*_PLACES) if is_of_word(character) and character not in known]


def unknown_letters(known: Collection[str], are_words: Callable[[str], bool]) -> dict[str, str]:
    """Return the letters and digits not in `known`, except those that are words by themselves, with substitutes."""
    return {
        character: _STAND_INS[unicodedata.category(character)]
        for character in _characters_in(*_PLACES)
        if unicodedata.category(character) in _STAND_INS and character not in known and not are_words(character)
    }


def clause_ends() -> list[str]:
    """Return the punctuation of scripts other than Latin and Chinese that ends a clause, like a full stop."""
    places = range(0x37E, 0x2000), range(0xA000, 0xFE00), range(0x10000, 0x20000)
    return [
        character
        for character in _characters_in(*places)
        if unicodedata.category(character) == "Po" and character not in _INSIDE_WORDS
    ]


def _characters_in(*places: range) -> Iterator[str]:
    return map(chr, chain(*places))
