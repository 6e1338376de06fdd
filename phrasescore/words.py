"""Words of a line: what blanks and tabs separate, in every file of Moses."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

_LONGEST_QUOTE = 40


def split_words(line: bytes) -> list[bytes]:
    """Return the words of a line; blanks and tabs that are doubled or stand at the ends make none.

    Nothing else separates words: a no-break space or a U+2028 is part of one. So Moses does it, moses/Phrase.cpp.
    """
    return [word for word in line.replace(b"\t", b" ").split(b" ") if word]


def join_words(line: bytes) -> bytes:
    """Return the words of a line with one blank between them."""
    if line.find(b"  ") < 0 and line.find(b"\t") < 0:  # which is quicker than `in`
        return line.strip(b" ")
    return b" ".join(split_words(line))


def phrases_of(words: Sequence[bytes], longest: int) -> Iterator[bytes]:
    """Yield every run of 1 to `longest` of some words, with one blank between them."""
    for start in range(len(words)):
        for end in range(start + 1, min(start + longest, len(words)) + 1):
            yield b" ".join(words[start:end])


def quote(text: bytes) -> str:
    """Return bytes as printable text for a message, cut where it gets long."""
    # No more of an endless line than is shown.
    shown = text[: 4 * _LONGEST_QUOTE].decode("utf-8", "backslashreplace")
    if not shown.isprintable():
        shown = shown.encode("unicode_escape").decode("ascii")
    return shown if len(shown) <= _LONGEST_QUOTE else shown[: _LONGEST_QUOTE - 3] + "..."
