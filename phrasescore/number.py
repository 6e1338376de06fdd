"""Parse numbers with the grammar of Moses' table loader and moses.ini.

The grammar is that of moses/TranslationModel/RuleTable/LoaderStandard.cpp, which calls double-conversion without flags.
Python's parser would also accept `1_0`, `Infinity`, surrounding whitespace and digits of other scripts.
"""

from __future__ import annotations

import math
import re
import struct

from phrasescore.words import quote

_NUMBER = re.compile(rb"[+-]?(?:(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?|inf)")
_SINGLE = struct.Struct("f")


def moses_number(token: bytes) -> float:
    """Parse a number of a table as Moses does: to the nearest 32-bit float, infinite on overflow.

    Raises:
        ValueError: Moses rejects it, as `nan`.
    """
    if not _NUMBER.fullmatch(token):
        raise ValueError(f"`{quote(token)}` is no number")
    return single(float(token))


def parse_number(text: str | bytes) -> float:
    """Parse a finite number.

    Raises:
        ValueError: it is not a number, or not finite.
    """
    token = text.encode("utf-8", "surrogateescape") if isinstance(text, str) else text
    number = float(token) if _NUMBER.fullmatch(token) else math.nan
    if not math.isfinite(number):
        raise ValueError(f"`{quote(token)}` is no finite number")
    return number


def single(number: float) -> float:
    """Return the nearest 32-bit float, infinite on overflow."""
    try:
        rounded: float = _SINGLE.unpack(_SINGLE.pack(number))[0]
    except OverflowError:
        return math.copysign(math.inf, number)
    return rounded
