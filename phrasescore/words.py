"""Words of a line, separated by spaces and tabs, as in every file of Moses."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

_LONGEST_QUOTE = 40


def split_words(line: bytes) -> list[bytes]:
    """Return the words of a line; repeated, leading and trailing spaces and tabs are ignored.

    Nothing else separates words: a no-break space or a U+2028 is part of a word, as in moses/Phrase.cpp.
    """
    return [word for word in line.replace(b"\t", b" ").split(b" ") if word]


def join_words(line: bytes) -> bytes:
    """Return the words of a line with single spaces between them."""
    if line.find(b"  ") < 0 and line.find(b"\t") < 0:  # which is quicker than `in`
        return line.strip(b" ")
    return b" ".join(split_words(line))


def phrases_of(words: Sequence[bytes], longest: int) -> Iterator[bytes]:
    """Yield every run of 1 to `longest` words, with single spaces between them."""
    for start in range(len(words)):
        for end in range(start + 1, min(start + longest, len(words)) + 1):
            yield b" ".join(words[start:end])


def quote(text: bytes) -> str:
    """Return bytes as printable text for a message, truncated if long."""
    # Decode only the part of a long line that is shown.
    shown = text[: 4 * _LONGEST_QUOTE].decode("utf-8", "backslashreplace")
    if not shown.isprintable():
        shown = shown.encode("unicode_escape").decode("ascii")
    return shown if len(shown) <= _LONGEST_QUOTE else shown[: _LONGEST_QUOTE - 3] + "..."
