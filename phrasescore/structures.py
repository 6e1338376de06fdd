"""Traversal of nested structures."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields, is_dataclass, replace
from typing import Any


def with_each(kind: type[Any], change: Callable[[Any], Any], value: Any) -> Any:
    """Apply a function to all instances of a type in nested dataclasses, tuples, lists and dictionaries, in order."""
    if isinstance(value, kind):
        return change(value)
    if type(value) in (tuple, list):
        return type(value)(with_each(kind, change, part) for part in value)
    if type(value) is dict:
        return {key: with_each(kind, change, part) for key, part in value.items()}
    if is_dataclass(value) and not isinstance(value, type):
        parts = {item.name: getattr(value, item.name) for item in fields(value)}
        return replace(value, **{name: with_each(kind, change, part) for name, part in parts.items()})
    return value
