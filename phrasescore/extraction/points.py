"""Word alignments in the Pharaoh format: one line per sentence pair, `source-target` word positions from 0."""

from __future__ import annotations

import re
from pathlib import Path

from phrasescore.errors import UserError
from phrasescore.words import quote

# Nine digits fit the 32-bit integers in which positions are collected.
_LINE = re.compile(rb" *(?:[0-9]{1,9}-[0-9]{1,9}(?: +|$))*")
_POINT = re.compile(rb"[0-9]{1,9}-[0-9]{1,9}")


def parse_points(line: bytes, path: Path, number: int) -> list[int]:
    """Return the positions of a line, source and target alternating: `0-0 2-1` gives 0, 0, 2, 1.

    `path` and `number` (from 1) locate the line in messages.
    """
    if not _LINE.fullmatch(line):
        token = next(token for token in line.split(b" ") if token and not _POINT.fullmatch(token))
        raise UserError(
            f"{path}: line {number}: `{quote(token)}` is not an alignment point; write each as `source-target`, word "
            "positions from 0, separated by spaces"
        )
    return [int(number) for number in line.replace(b"-", b" ").split(b" ") if number]
