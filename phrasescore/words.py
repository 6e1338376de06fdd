"""Words of a line: what blanks separate, in every file of Moses."""

from __future__ import annotations


def split_words(line: bytes) -> list[bytes]:
    """Return the words of a line; blanks that are doubled or stand at the ends make none.

    Nothing else separates words: a no-break space or a U+2028 is part of one.
    """
    return [word for word in line.split(b" ") if word]
