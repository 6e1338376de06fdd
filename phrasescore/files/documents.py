"""JSON and TOML, read in bounded time and memory from untrusted files.

A document is a regular, uncompressed file in UTF-8, no larger than the bounds below. It nests at most `DEEPEST` levels.
Numbers are finite, and integers fit into 64 bits. Strings are valid as file names. The top level of JSON is an object.
Callers can therefore traverse, convert and rewrite a document safely, and validate only its content.
"""

from __future__ import annotations

import json
import math
import re
import tomllib
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from phrasescore.errors import UserError
from phrasescore.files.reading import read_regular
from phrasescore.files.writing import write_atomically

LARGEST_JSON, LARGEST_JSON_LINES, LARGEST_TOML = 1 << 24, 1 << 26, 1 << 20
"""Bytes. A document in memory can be 30 times as large."""
DEEPEST = 100
_TOO_DEEP = f"nests more than {DEEPEST} levels deep"
_TOO_LONG = "has a whole number of more than 64 bits"
_NOT_IN_NAMES = re.compile("[\\0\ud800-\udc7f\udd00-\udfff]")
"""Characters that file names cannot contain. U+DC80 to U+DCFF encode bytes that are not UTF-8 (PEP 383)."""


def read_json(path: Path, remedy: str) -> dict[str, Any]:
    """Read a JSON object from a file; `remedy` is the advice in messages about a damaged file."""
    return parse_json(read_regular(path, LARGEST_JSON), str(path), remedy)


def read_json_lines(path: Path, remedy: str) -> list[dict[str, Any]]:
    """Read a file with one JSON object per line; skip an incomplete last line, which a killed process leaves."""
    # An incomplete last line has no line end.
    lines = read_regular(path, LARGEST_JSON_LINES).split(b"\n")[:-1]
    return [parse_json(line, f"{path}: line {number}", remedy) for number, line in enumerate(lines, 1)]


def parse_json(content: bytes, place: str, remedy: str) -> dict[str, Any]:
    """Parse a JSON object; `place` is its origin and `remedy` the advice if it is damaged, both for messages."""
    return _parse(partial(json.loads, object_pairs_hook=_unique), "JSON", content, place, remedy)


def _unique(items: list[tuple[str, Any]]) -> dict[str, Any]:
    """Return a JSON object; of a repeated key, other programs may read another value."""
    found = dict(items)
    if len(found) < len(items):
        raise ValueError("a key occurs twice in one object")
    return found


def read_toml(path: Path) -> dict[str, Any]:
    """Read a TOML file."""
    return parse_toml(read_regular(path, LARGEST_TOML), str(path))


def parse_toml(content: bytes, place: str) -> dict[str, Any]:
    """Parse TOML; `place` is its origin, for messages."""
    # tomllib takes quadratic time in the number of dots of a key.
    if any(line.count(b".") > DEEPEST for line in content.split(b"\n")):
        raise UserError(f"{place}: has a line with more than {DEEPEST} dots; fix it")
    return _parse(tomllib.loads, "TOML", content, place, "fix it")


def _parse(loads: Callable[[str], Any], format_name: str, content: bytes, place: str, remedy: str) -> dict[str, Any]:
    value: Any = None
    try:
        value = loads(content.decode())
        fault = _fault(value) if isinstance(value, dict) else "is no object of JSON"
    except RecursionError:
        fault = _TOO_DEEP
    except ValueError as error:
        # Python raises a plain ValueError for integers with too many digits.
        fault = _TOO_LONG if "integer string conversion" in str(error) else f"is not {format_name} ({error})"
    if fault:
        raise UserError(f"{place}: {fault}; {remedy}")
    found: dict[str, Any] = value
    return found


def _fault(value: Any, levels: int = DEEPEST) -> str | None:
    """Return what exceeds a bound in a value that nests at most `levels` levels, None if nothing does."""
    if isinstance(value, dict | list):
        if not levels:
            return _TOO_DEEP
        parts = [*value, *value.values()] if isinstance(value, dict) else value
        return next((fault for part in parts if (fault := _fault(part, levels - 1))), None)
    if isinstance(value, float) and not math.isfinite(value):
        return "has a number that is not finite"
    if type(value) is int and not -(2**63) <= value < 2**64:
        return _TOO_LONG
    if isinstance(value, str) and _NOT_IN_NAMES.search(value):
        return "has a string with a NUL or half of a surrogate pair"
    return None


def finite(value: Any) -> Any:
    """Replace infinity and NaN, which JSON does not have, by None."""
    if isinstance(value, dict):
        return {key: finite(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [finite(item) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def to_json(value: Any) -> bytes:
    """Return indented JSON for human readers, with keys in the given order; see `finite`."""
    text = json.dumps(finite(value), indent=2, ensure_ascii=False, default=str) + "\n"
    # A file name that is not UTF-8 has lone surrogates, which become JSON escapes.
    return text.encode(errors="backslashreplace")


def write_json(path: Path, value: Any) -> None:
    """Write indented JSON; see `to_json` and `open_output`."""
    write_atomically(path, to_json(value))
