"""Word alignments in the Pharaoh format: a line for each sentence pair, `source-target` word positions from 0."""

from __future__ import annotations

import re

# Nine digits fit the 32-bit integers in which positions are collected.
_LINE = re.compile(rb" *(?:[0-9]{1,9}-[0-9]{1,9}(?: +|$))*")
_POINT = re.compile(rb"[0-9]{1,9}-[0-9]{1,9}")


def parse_points(line: bytes) -> list[int]:
    """Return the positions of a line without its end, source and target in turn: `0-0 2-1` gives 0, 0, 2, 1.

    Raises:
        ValueError: a token is not `source-target`; its text is the token.
    """
    if not _LINE.fullmatch(line):
        token = next(token for token in line.split(b" ") if token and not _POINT.fullmatch(token))
        raise ValueError(token.decode("utf-8", "backslashreplace"))
    return [int(number) for number in line.replace(b"-", b" ").split(b" ") if number]
