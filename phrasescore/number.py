"""Numbers as Moses reads them: its table loader and its moses.ini know no others.

The grammar is that of moses/TranslationModel/RuleTable/LoaderStandard.cpp, which calls double-conversion without flags.
Python's own would take `1_0`, `Infinity`, blanks at the ends and other scripts' digits, too.
"""

from __future__ import annotations

import math
import re
import struct

from phrasescore.words import quote

_NUMBER = re.compile(rb"[+-]?(?:(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?|inf)")
_SINGLE = struct.Struct("f")


def moses_number(token: bytes) -> float:
    """Return what Moses makes of a token of a table: the nearest number of 32 bits, infinite beyond them.

    Raises:
        ValueError: Moses stops at it, as at `nan`; the message says so.
    """
    if not _NUMBER.fullmatch(token):
        raise ValueError(f"`{quote(token)}` is no number")
    return single(float(token))


def parse_number(text: str | bytes) -> float:
    """Parse a finite number.

    Raises:
        ValueError: it is none; the message says so.
    """
    token = text.encode("utf-8", "surrogateescape") if isinstance(text, str) else text
    number = float(token) if _NUMBER.fullmatch(token) else math.nan
    if not math.isfinite(number):
        raise ValueError(f"`{quote(token)}` is no finite number")
    return number


def single(number: float) -> float:
    """Return the nearest number of 32 bits, infinite beyond them."""
    try:
        rounded: float = _SINGLE.unpack(_SINGLE.pack(number))[0]
    except OverflowError:
        return math.copysign(math.inf, number)
    return rounded
