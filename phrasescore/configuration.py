"""Typed configuration: frozen dataclasses filled from presets, a TOML file and the command line.

A dataclass field is the only definition of an option: name, type, default, range, help. The command line, the keyword
arguments of Python and the keys of TOML files are derived from it. `option` declares a field with a command-line flag;
`setting` declares a field that only TOML, `--set` and Python can set.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import Field, field, fields
from pathlib import Path
from types import UnionType
from typing import (
    Any,
    ClassVar,
    Literal,
    Protocol,
    TypeVar,
    Union,
    cast,
    get_args,
    get_origin,
    get_type_hints,
)

from phrasescore.errors import UsageError, UserError
from phrasescore.files import documents

T = TypeVar("T")

_TYPE_NAMES = {int: "a whole number", float: "a number", str: "a text", bool: "true or false", Path: "a path"}


LARGEST = 2**31 - 1
"""The default upper bound of integer options; some C libraries accept no larger integers."""


AUTO = "auto"
"""The value of an option that is derived from the data."""


class Section(Protocol):
    """Any dataclass."""

    __dataclass_fields__: ClassVar[dict[str, Field[Any]]]


def option(
    default: T,
    text: str,
    *,
    minimum: float | None = None,
    maximum: float | None = None,
    metavar: str | None = None,
    is_switch: bool = False,
    auto: bool = False,
) -> T:
    """Declare a dataclass field as an option.

    Args:
        default: the default value.
        text: the help text; it may end with `(default: ...)` if the default is not a value.
        minimum: the smallest valid value.
        maximum: the largest valid value.
        metavar: the placeholder of the value in `--help`; None derives it from the type.
        is_switch: whether the command line has no `--no-` form; for booleans that no preset sets.
        auto: whether `auto` is a valid value.
    """
    facts = {"help": text, "minimum": minimum, "maximum": maximum, "metavar": metavar, "is_switch": is_switch}
    return field(default=default, metadata={**facts, "auto": auto, "flag": True})


def setting(default: T, text: str, *, minimum: float | None = None, maximum: float | None = None) -> T:
    """Declare a dataclass field that a user can set, but that has no command-line flag."""
    return field(default=default, metadata={"help": text, "minimum": minimum, "maximum": maximum, "flag": False})


def options_of(section: type[Section]) -> dict[str, Field[Any]]:
    """Return the fields of a section that a user can set, by name."""
    return {item.name: item for item in fields(section) if "help" in item.metadata}


def flags_of(section: type[Section]) -> dict[str, Field[Any]]:
    """Return the fields of a section that have a flag on the command line."""
    return {name: item for name, item in options_of(section).items() if item.metadata["flag"]}


def option_types(section: type[Section]) -> dict[str, Any]:
    """Return the type of each field of a section."""
    hints = get_type_hints(section)
    return {item.name: hints[item.name] for item in fields(section)}


def choices(kind: Any) -> tuple[str, ...]:
    """Return the values a Literal type allows, or none for other types."""
    return get_args(kind) if get_origin(kind) is Literal else ()


def scalar_type(kind: Any) -> type:
    """Return the scalar type of a field: the type inside `| None` or `tuple[..., ...]`, and str for a Literal."""
    kind = _without_none(kind)
    if is_list(kind):
        kind = get_args(kind)[0]
    return str if get_origin(kind) is Literal else cast(type, kind)


def is_list(kind: Any) -> bool:
    """Return whether a field type takes several values, `tuple[..., ...]`."""
    return get_origin(_without_none(kind)) is tuple


def _without_none(kind: Any) -> Any:
    if get_origin(kind) in (Union, UnionType):
        return next(part for part in get_args(kind) if part is not type(None))
    return kind


def check_values(section: type[Section], values: Mapping[str, Any], place: str) -> dict[str, Any]:
    """Validate and convert the values of some fields of a section; `place` is their origin, for messages.

    Raises:
        UserError: a key is unknown or a value is invalid.
    """
    kinds = option_types(section)
    checked = {key: _check(key, value, kinds, place) for key, value in values.items()}
    for item in fields(section):
        value = checked.get(item.name)
        if value is not None and (fault := range_fault(item, scalar_type(kinds[item.name]), value)):
            raise UserError(f"{place}: {item.name} {fault}")
    return checked


def range_fault(item: Field[Any], kind: type, value: Any) -> str | None:
    """Return an error text if a number is out of the range of its field, else None."""
    minimum, maximum = item.metadata.get("minimum"), item.metadata.get("maximum")
    if maximum is None and kind is int:
        maximum = LARGEST
    # `not >=` also rejects NaN.
    if minimum is not None and not value >= minimum:
        return f"is {value}; give at least {minimum}"
    if maximum is not None and not value <= maximum:
        return f"is {value}; give at most {maximum}"
    return None


def _check(key: str, value: Any, kinds: Mapping[str, Any], place: str) -> Any:
    if key not in kinds:
        raise UserError(unknown_key(key, kinds, place))
    kind = kinds[key]
    allowed = choices(kind)
    if allowed and value not in allowed:
        raise UserError(f"{place}: {key} is {value!r}; choose one of {', '.join(allowed)}")
    wanted = scalar_type(kind)
    if is_list(kind) and value is not None:
        return _checked_list(key, value, wanted, place)
    if wanted is Path and isinstance(value, str):
        return Path(value)
    if wanted is float and isinstance(value, int) and not isinstance(value, bool):
        return float(value)
    is_missing = value is None and type(None) in get_args(kind)
    if not is_missing and (not isinstance(value, wanted) or (wanted is int and isinstance(value, bool))):
        raise UserError(f"{place}: {key} is {value!r}; give {_TYPE_NAMES[wanted]}")
    return value


def _checked_list(key: str, value: Any, wanted: type, place: str) -> tuple[Any, ...]:
    """Return a list option as a tuple; a single string is an error, not a list of characters."""
    kinds = (str, Path) if wanted is Path else (wanted,)
    if isinstance(value, str | bytes | Path) or not isinstance(value, Iterable):
        raise UserError(f"{place}: {key} is {value!r}; give a list")
    values = tuple(value)
    if wrong := [one for one in values if not isinstance(one, kinds)]:
        raise UserError(f"{place}: {key} has {wrong[0]!r}; give {_TYPE_NAMES[wanted]} for each")
    return tuple(map(wanted, values))


def refuse_given(given: Mapping[str, str], names: Sequence[str], reason: str) -> None:
    """Reject options that have no effect; `given` maps field names to the names that the user wrote.

    Raises:
        UsageError: one of them is given.
    """
    for name in names:
        if name in given:
            raise UsageError(f"{given[name]}: changes nothing {reason}; leave it out")


def unknown_key(key: str, known: Iterable[str], place: str) -> str:
    """Return the message about an unknown key."""
    return f"{place}: unknown key `{key}`; {suggestion(key, known)}"


def suggestion(name: str, known: Iterable[str]) -> str:
    """Return advice about an unknown name: the most similar known name, or all known names."""
    names = sorted(known)
    near = nearest(name, names)
    return f"did you mean `{near}`?" if near else f"known are {', '.join(names)}"


def nearest(name: str, known: Iterable[str]) -> str | None:
    """Return the most similar known name, or None if no known name is similar."""
    return next(iter(difflib.get_close_matches(name, known, n=1)), None)


def read_toml(path: Path, sections: Mapping[str, type[Section]]) -> dict[str, dict[str, Any]]:
    """Read a configuration file and check the names of its sections.

    Raises:
        UserError: the file cannot be read, is not TOML, or has an unknown section.
    """
    values = documents.read_toml(path)
    for key, value in values.items():
        if key not in sections:
            raise UserError(unknown_key(key, sections, str(path)))
        if not isinstance(value, dict):
            raise UserError(f"{path}: `{key}` must be a section, written [{key}]")
    return values


def require_known(function: str, options: Iterable[str], sections: Iterable[type[Section]]) -> None:
    """Check the names of keyword arguments of a function that takes the options of some sections.

    Raises:
        TypeError: an option does not exist.
    """
    known = [name for section in sections for name in options_of(section)]
    for name in options:
        if name not in known:
            near = nearest(name, known)
            raise TypeError(f"{function} has no option `{name}`" + (f"; did you mean `{near}`?" if near else ""))
