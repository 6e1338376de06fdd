"""Names of places: a word of a text becomes one that stands nowhere else, and a table can say where it means a phrase.

    word MARK sentence MARK place

The mark is U+FDD0. Unicode keeps it for the inside of programs and will never make it a character of text, and nothing
that reads Moses' files separates or drops words at it. Numbers count from 0, in letters, a for 0 to j for 9: with
`-drop-unknown` words that have digits are treated otherwise than others (moses/TranslationOptionCollection.cpp).
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from phrasescore.errors import UserError

MARK = "\ufdd0".encode()
_NAME = re.compile(MARK + b"[a-j]+" + MARK + b"[a-j]+")
_LETTERS = bytes.maketrans(b"0123456789", b"abcdefghij")


def name_of(word: bytes, sentence: int, place: int) -> bytes:
    """Return the name of a word that stands at a place in a sentence."""
    return MARK.join((word, _letters(sentence), _letters(place)))


def _letters(number: int) -> bytes:
    return (b"%d" % number).translate(_LETTERS)


def without_names(line: bytes) -> bytes:
    """Return a line with words in place of their names, be it of a translation, an n-best list or a report."""
    return _NAME.sub(b"", line) if MARK in line else line


def require_unmarked(lines: Iterable[bytes], name: object) -> None:
    """Check that lines lack the mark, so that what has it is a name; `name` is that of their file.

    Raises:
        UserError: one has it.
    """
    for number, line in enumerate(lines, 1):
        if MARK in line:
            raise UserError(
                f"{name}: line {number}: has U+FDD0, which is no character of text and marks position tags; "
                "remove it, or give the text from before its words got such names"
            )
