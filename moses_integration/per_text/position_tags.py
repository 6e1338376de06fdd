"""Position tags: make a token unique in the text, so that a phrase table can have an entry for one position.

    word MARK sentence MARK position

The mark is U+FDD0, a Unicode noncharacter, which never occurs in text. No program that reads Moses' files splits or
drops words at it. Numbers count from 0 and are written in letters, a for 0 to j for 9, because `-drop-unknown` treats
words with digits differently (moses/TranslationOptionCollection.cpp).
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from phrasescore.errors import UserError

MARK = "\ufdd0".encode()
_TAG = re.compile(MARK + b"[a-j]+" + MARK + b"[a-j]+")
_LETTERS = bytes.maketrans(b"0123456789", b"abcdefghij")


def tag_word(word: bytes, sentence: int, position: int) -> bytes:
    """Return a word with the tag of its position in a sentence."""
    return MARK.join((word, (b"%d" % sentence).translate(_LETTERS), (b"%d" % position).translate(_LETTERS)))


def strip_tags(line: bytes) -> bytes:
    """Remove the position tags from a line of a translation, an n-best list or a report."""
    return _TAG.sub(b"", line) if MARK in line else line


def require_untagged(lines: Iterable[bytes], name: object) -> None:
    """Raise an error if a line contains the mark of position tags; `name` is the file name for messages."""
    for number, line in enumerate(lines, 1):
        if MARK in line:
            raise UserError(
                f"{name}: line {number}: has U+FDD0, which is no character of text and marks position tags; remove it, "
                "or give the text without tags"
            )
