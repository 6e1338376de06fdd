"""Numbers as Moses reads them."""

from __future__ import annotations

import math

from phrasescore.table.entry import quote


def parse_number(text: str | bytes) -> float:
    """Parse a finite number; Python would take `1_0` for one, too, and other scripts' digits.

    Raises:
        ValueError: it is none; the message says so.
    """
    token = text.encode("utf-8", "surrogateescape") if isinstance(text, str) else text
    try:
        number = math.nan if b"_" in token else float(token)
    except ValueError:
        number = math.nan
    if not math.isfinite(number):
        raise ValueError(f"`{quote(token)}` is no finite number")
    return number
