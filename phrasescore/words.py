"""Words and numbers of a line, as in every file of Moses.

The grammar of numbers is that of moses/TranslationModel/RuleTable/LoaderStandard.cpp, which calls double-conversion
without flags. Python's parser would also accept `1_0`, `Infinity`, surrounding whitespace and digits of other scripts.
"""

from __future__ import annotations

import math
import re
from array import array
from collections.abc import Iterable, Iterator, Sequence
from hashlib import blake2b

_LONGEST_QUOTE = 40
_NUMBER = re.compile(rb"[+-]?(?:(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?|inf)")


def split_words(line: bytes) -> list[bytes]:
    """Return the words of a line. Only spaces and tabs separate words, as in moses/Phrase.cpp, not a no-break space."""
    return [word for word in line.replace(b"\t", b" ").split(b" ") if word]


def join_words(line: bytes) -> bytes:
    """Return the words of a line with single spaces between them."""
    if line.find(b"  ") < 0 and line.find(b"\t") < 0:  # which is quicker than `in`
        return line.strip(b" ")
    return b" ".join(split_words(line))


def hash_word(word: bytes) -> int:
    """Return a 64-bit hash that is the same in every process."""
    return int.from_bytes(blake2b(word, digest_size=8).digest(), "little")


def word_count(line: bytes) -> int:
    """Return the number of words of a line of `join_words`."""
    return line.count(b" ") + 1 if line else 0


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


def moses_number(token: bytes) -> float:
    """Parse a number of a table as Moses does: to the nearest 32-bit float, or infinity; `nan` is a ValueError."""
    if not _NUMBER.fullmatch(token):
        raise ValueError(f"`{quote(token)}` is no number")
    return to_float32([float(token)])[0]


def parse_number(text: str | bytes) -> float:
    """Parse a finite number; anything else is a ValueError."""
    token = text.encode("utf-8", "surrogateescape") if isinstance(text, str) else text
    number = float(token) if _NUMBER.fullmatch(token) else math.nan
    if not math.isfinite(number):
        raise ValueError(f"`{quote(token)}` is no finite number")
    return number


def to_float32(numbers: Iterable[float]) -> list[float]:
    """Return the nearest 32-bit floats, infinite on overflow."""
    return array("f", numbers).tolist()
