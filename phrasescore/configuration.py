"""Typed configuration: frozen dataclasses filled from presets, a TOML file and the command line.

A dataclass field is the only definition of an option: name, type, default, range, help. The command line, the keyword
arguments of Python and the keys of TOML files are derived from it. `option` declares a field with a command-line flag;
`setting` declares a field that only TOML, `--set` and Python can set.
"""

from __future__ import annotations

import difflib
from collections.abc import Collection, Iterable, Mapping
from dataclasses import Field, field, fields
from numbers import Integral, Real
from pathlib import Path
from types import UnionType
from typing import Any, ClassVar, Literal, Protocol, TypeVar, Union, cast, get_args, get_origin, get_type_hints

from phrasescore.errors import UsageError, UserError, are_options_flags
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


Sections = Mapping[str, type[Section]]
Values = dict[str, dict[str, Any]]
"""The values of some options of each section."""


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

    Help may end with `(default: ...)` if the default is not a value. A switch, for booleans that no preset sets, has no
    `--no-` form. `metavar` is the placeholder of the value in `--help`; None derives it from the type. With `auto` the
    value `auto` is valid, too.
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
    """Validate and convert the values of some fields of a section; `place` is their origin, for messages."""
    kinds, checked, items = option_types(section), {}, {item.name: item for item in fields(section)}
    for key, value in values.items():
        if key not in kinds:
            raise UserError(unknown_key(key, kinds, place))
        checked[key] = _converted(value, kinds[key], f"{place}: {key}")
        if checked[key] is not None and (fault := range_fault(items[key], scalar_type(kinds[key]), checked[key])):
            raise UserError(f"{place}: {key} {fault}")
    return checked


def check_options(section: type[Section], values: Mapping[str, Any], place: str) -> dict[str, Any]:
    """Validate values as `check_values` does, for the options of a user, some of which may be `auto`."""
    known = options_of(section)
    for key in values:
        if key not in known:
            raise UserError(unknown_key(key, known, place))
    automatic = {key: AUTO for key, value in values.items() if known[key].metadata.get("auto") and value == AUTO}
    return check_values(section, {key: values[key] for key in values if key not in automatic}, place) | automatic


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


def _converted(value: Any, kind: Any, name: str) -> Any:
    wanted = scalar_type(kind)
    if value is None and type(None) in get_args(kind):
        return None
    if is_list(kind):
        if not is_several(value):
            raise UserError(f"{name} is {value!r}; give a list")
        return tuple(_converted(one, wanted, name) for one in value)
    if (allowed := choices(kind)) and value not in allowed:
        raise UserError(f"{name} is {value!r}; choose one of {', '.join(allowed)}")
    if wanted is Path and isinstance(value, str):
        return Path(value)
    # Integral and Real include the numbers of NumPy, and bool.
    if wanted is int and isinstance(value, Integral) and not isinstance(value, bool):
        return int(value)
    if wanted is float and isinstance(value, Real) and not isinstance(value, bool):
        return float(value)
    if not isinstance(value, wanted) or wanted is int:
        raise UserError(f"{name} is {value!r}; give {_TYPE_NAMES[wanted]}")
    return value


def is_several(value: Any) -> bool:
    """Return whether a Python value is a list of values, such as a tuple, a range or an array."""
    return isinstance(value, Iterable) and not isinstance(value, str | bytes | Path)


def reject_without_effect(given: Iterable[str], without_effect: Mapping[str, str]) -> None:
    """Reject given options that have no effect; `without_effect` maps their names to the reason."""
    for name in given:
        if name in without_effect:
            raise UsageError(f"`{name}`: has no effect {without_effect[name]}; leave it out")


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


def read_toml(path: Path, sections: Sections) -> Values:
    """Read and validate a configuration file."""
    values = documents.read_toml(path)
    for key, value in values.items():
        if key not in sections:
            raise UserError(unknown_key(key, sections, str(path)))
        if not isinstance(value, dict):
            raise UserError(f"{path}: `{key}` must be a section, written [{key}]")
    return {key: check_options(sections[key], value, f"{path}: [{key}]") for key, value in values.items()}


def parse_change(text: str, sections: Sections) -> tuple[str, str, Any]:
    """Parse `--set SECTION.KEY=VALUE`; VALUE is TOML or an unquoted string."""
    place = f"--set {text}" if are_options_flags() else text
    name, _, written = (part.strip() for part in text.partition("="))
    section, dot, key = name.partition(".")
    if not dot:
        homes = [f"{home}.{name}" for home, kind in sections.items() if name in options_of(kind)]
        advice = f"did you mean `{homes[0]}`?" if homes else "give SECTION.KEY=VALUE, as in training.epochs=3"
        raise UsageError(f"{place}: names no section; {advice}")
    if section not in sections:
        raise UsageError(unknown_key(section, sections, place))
    if not written:
        raise UsageError(f"{place}: has no value; give SECTION.KEY=VALUE, as in training.epochs=3")
    kind = scalar_type(option_types(sections[section]).get(key, str))
    try:
        return section, key, check_options(sections[section], {key: _parsed(written, kind)}, place)[key]
    except UserError as error:
        raise UsageError(str(error)) from None


def _parsed(written: str, kind: type) -> Any:
    """Parse a TOML value; quotes around strings are optional."""
    if kind in (str, Path) and written[0] not in "\"'":
        return written
    try:
        values = documents.parse_toml(f"value = {written}".encode(), "")
    except UserError:
        return written
    return values["value"] if len(values) == 1 else written


def require_known(function: str, options: Iterable[str], known: Collection[str]) -> None:
    """Raise a TypeError if a function has no option of a given name."""
    for name in options:
        if name not in known:
            raise TypeError(f"{function}() has no option `{name}`; {suggestion(name, known)}")
