"""JSON and TOML that others may have written: read in bounded time and memory, or refused in one sentence.

A document is a regular file, plain and in UTF-8, no larger than the bounds below. It nests at most `DEEPEST` levels,
its numbers are finite, whole ones fit into 64 bits, its strings can be names of files, no key of an object stands there
twice, and JSON has an object at its top. So what is read can be walked through, converted and written again without
surprise:

    description = read_json(folder / "config.json", "copy the model folder again")
    settings = read_toml(path)

What a document says is for its reader to check. Files that are no documents, such as vocabularies and weights, are
read by `phrasescore.files.read_regular`, which has the same rule of what may be opened.
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
"""Bytes. What a document becomes in memory may be 30 times as large."""
DEEPEST = 100
"""Levels of nesting."""
_WHOLE_NUMBERS = range(-(2**63), 2**64)


_NOT_IN_NAMES = re.compile("[\\0\ud800-\udc7f\udd00-\udfff]")
"""No name of a file has them. U+DC80 to U+DCFF stand for its bytes that are not UTF-8 (PEP 383)."""


class _OutOfBoundsError(ValueError):
    """What a document is or has, in the words that follow its name."""


def read_json(path: Path, remedy: str) -> dict[str, Any]:
    """Return the object that a JSON file holds; `remedy` is what to do about a damaged file, for messages.

    Raises:
        UserError: it cannot be read, is not JSON, or goes beyond the bounds.
    """
    return parse_json(read_regular(path, LARGEST_JSON), str(path), remedy)


def read_json_lines(path: Path, remedy: str) -> list[dict[str, Any]]:
    """Return the objects of a file that has one a line, without the one whose line a kill has cut short.

    Raises:
        UserError: the file cannot be read, a line is not JSON, or goes beyond the bounds; `remedy` as in `read_json`.
    """
    # What was cut short has no end.
    lines = read_regular(path, LARGEST_JSON_LINES).split(b"\n")[:-1]
    return [parse_json(line, f"{path}: line {number}", remedy) for number, line in enumerate(lines, 1)]


def parse_json(content: bytes | str, place: str, remedy: str) -> dict[str, Any]:
    """Return the object that some JSON holds; `place` says where it comes from, `remedy` what to do if it is damaged.

    Raises:
        UserError: it is not JSON, or goes beyond the bounds.
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
    """Return the values of a TOML file.

    Raises:
        UserError: it cannot be read, is not TOML, or goes beyond the bounds.
    """
    return parse_toml(read_regular(path, LARGEST_TOML), str(path))


def parse_toml(content: bytes, place: str) -> dict[str, Any]:
    """Return the values of some TOML; `place` says where it comes from.

    Raises:
        UserError: it is not TOML, or goes beyond the bounds.
    """
    try:
        # A key with many dots takes tomllib a time that grows with their square.
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
    """Return what is wrong with a document."""
    if isinstance(error, _OutOfBoundsError):
        return str(error)
    if isinstance(error, RecursionError):
        return _TOO_DEEP
    # Python's own bound for the digits of a whole number has no class of its own.
    return _TOO_LONG if "integer string conversion" in str(error) else f"is not {format_name} ({error})"


def _without_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Return an object of JSON.

    Raises:
        _OutOfBoundsError: a key stands there twice.
    """
    found = dict(pairs)
    if len(found) != len(pairs):
        raise _OutOfBoundsError("has a key twice in one object")
    return found


def _check(document: dict[str, Any]) -> None:
    """Check nesting, numbers and strings, level by level: recursion is what deep nesting breaks.

    Raises:
        _OutOfBoundsError: a bound is passed.
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
