"""Word alignments in the Pharaoh format: a line for each sentence pair, `source-target` word positions from 0."""

from __future__ import annotations

import re
from pathlib import Path

from phrasescore.errors import UserError
from phrasescore.words import quote

# Nine digits fit the 32-bit integers in which positions are collected.
_LINE = re.compile(rb" *(?:[0-9]{1,9}-[0-9]{1,9}(?: +|$))*")
_POINT = re.compile(rb"[0-9]{1,9}-[0-9]{1,9}")


def parse_points(line: bytes, path: Path, number: int) -> list[int]:
    """Return the positions of a line without its end, source and target in turn: `0-0 2-1` gives 0, 0, 2, 1.

    Args:
        line: of an alignment.
        path: its file, for messages.
        number: the line's, from 1.

    Raises:
        UserError: something in it is not `source-target`.
    """
    if not _LINE.fullmatch(line):
        token = next(token for token in line.split(b" ") if token and not _POINT.fullmatch(token))
        raise UserError(
            f"{path}: line {number}: `{quote(token)}` is not an alignment point; write each as `source-target`, word "
            "positions from 0, separated by blanks"
        )
    return [int(number) for number in line.replace(b"-", b" ").split(b" ") if number]
