"""Read untrusted JSON and TOML in bounded time and memory.

A document is a regular, uncompressed file in UTF-8, no larger than the bounds below. It nests at most `DEEPEST` levels.
Numbers are finite, and integers fit into 64 bits. Strings are valid as file names. Keys of an object are unique, and
the top level of JSON is an object. Callers can therefore traverse, convert and rewrite a document safely:

    description = read_json(folder / "config.json", "copy the model folder again")
    settings = read_toml(path)

Callers validate the content. Other files, such as vocabularies and weights, are read by
`phrasescore.files.read_regular`, which has the same rule about files that may be opened.
"""

from __future__ import annotations

import json
import math
import re
import tomllib
from pathlib import Path
from typing import Any

from phrasescore.errors import UserError
from phrasescore.files import read_regular

LARGEST_JSON, LARGEST_JSON_LINES, LARGEST_TOML = 1 << 24, 1 << 26, 1 << 20
"""Bytes. A document in memory can be 30 times as large."""
DEEPEST = 100
"""Levels of nesting."""
_WHOLE_NUMBERS = range(-(2**63), 2**64)


_NOT_IN_NAMES = re.compile("[\\0\ud800-\udc7f\udd00-\udfff]")
"""Characters that file names cannot contain. U+DC80 to U+DCFF encode bytes that are not UTF-8 (PEP 383)."""


class _OutOfBoundsError(ValueError):
    """A document exceeds a bound; the text follows the name of the document in the message."""


def read_json(path: Path, remedy: str) -> dict[str, Any]:
    """Read a JSON object from a file; `remedy` is the advice in messages about a damaged file.

    Raises:
        UserError: the file cannot be read, is not JSON, or exceeds the bounds.
    """
    return parse_json(read_regular(path, LARGEST_JSON), str(path), remedy)


def read_json_lines(path: Path, remedy: str) -> list[dict[str, Any]]:
    """Read a file with one JSON object per line; skip an incomplete last line, which a killed process leaves.

    Raises:
        UserError: the file cannot be read, a line is not JSON, or a bound is exceeded; `remedy` as in `read_json`.
    """
    # An incomplete last line has no line end.
    lines = read_regular(path, LARGEST_JSON_LINES).split(b"\n")[:-1]
    return [parse_json(line, f"{path}: line {number}", remedy) for number, line in enumerate(lines, 1)]


def parse_json(content: bytes | str, place: str, remedy: str) -> dict[str, Any]:
    """Parse a JSON object; `place` is its origin and `remedy` the advice if it is damaged, both for messages.

    Raises:
        UserError: it is not JSON, or exceeds the bounds.
    """
    try:
        text = content.decode() if isinstance(content, bytes) else content
        value = json.loads(text, object_pairs_hook=_without_duplicates)
        if not isinstance(value, dict):
            raise _OutOfBoundsError("is no object of JSON")
        _check(value)
    except (ValueError, RecursionError) as error:
        raise UserError(f"{place}: {_fault('JSON', error)}; {remedy}") from error
    return value


def read_toml(path: Path) -> dict[str, Any]:
    """Read a TOML file.

    Raises:
        UserError: the file cannot be read, is not TOML, or exceeds the bounds.
    """
    return parse_toml(read_regular(path, LARGEST_TOML), str(path))


def parse_toml(content: bytes, place: str) -> dict[str, Any]:
    """Parse TOML; `place` is its origin, for messages.

    Raises:
        UserError: it is not TOML, or exceeds the bounds.
    """
    try:
        # tomllib takes quadratic time in the number of dots of a key.
        if any(line.count(b".") > DEEPEST for line in content.split(b"\n")):
            raise _OutOfBoundsError(f"has a line with more than {DEEPEST} dots")
        values = tomllib.loads(content.decode())
        _check(values)
    except (ValueError, RecursionError) as error:
        raise UserError(f"{place}: {_fault('TOML', error)}; mend it") from error
    return values


_TOO_DEEP = f"nests more than {DEEPEST} levels deep"
_TOO_LONG = "has a whole number of more than 64 bits"


def _fault(format_name: str, error: ValueError | RecursionError) -> str:
    if isinstance(error, _OutOfBoundsError):
        return str(error)
    if isinstance(error, RecursionError):
        return _TOO_DEEP
    # Python raises a plain ValueError for integers with too many digits.
    return _TOO_LONG if "integer string conversion" in str(error) else f"is not {format_name} ({error})"


def _without_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Build a JSON object.

    Raises:
        _OutOfBoundsError: a key is repeated.
    """
    found = dict(pairs)
    if len(found) != len(pairs):
        raise _OutOfBoundsError("has a key twice in one object")
    return found


def _check(document: dict[str, Any]) -> None:
    """Check nesting, numbers and strings level by level, because deep nesting breaks recursion.

    Raises:
        _OutOfBoundsError: a bound is exceeded.
    """
    holders: list[Any] = [document]
    for _ in range(DEEPEST):
        values = [value for holder in holders for value in holder]
        values += [value for holder in holders if isinstance(holder, dict) for value in holder.values()]
        for value in values:
            if isinstance(value, float) and not math.isfinite(value):
                raise _OutOfBoundsError("has a number that is not finite")
            if type(value) is int and value not in _WHOLE_NUMBERS:
                raise _OutOfBoundsError(_TOO_LONG)
            if isinstance(value, str) and _NOT_IN_NAMES.search(value):
                raise _OutOfBoundsError("has a string with a NUL or half of a surrogate pair")
        holders = [value for value in values if isinstance(value, dict | list)]
        if not holders:
            return
    raise _OutOfBoundsError(_TOO_DEEP)
