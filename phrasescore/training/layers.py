"""Merge settings from a preset, a TOML file, and the command line or keyword arguments. Later layers take precedence.

A preset is a TOML file in the package. The value `auto` selects a value by the size of the data.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from phrasescore.configuration import (
    AUTO,
    Section,
    check_values,
    option_types,
    options_of,
    read_toml,
    require_known,
    scalar_type,
    suggestion,
    unknown_key,
)
from phrasescore.errors import UsageError, UserError
from phrasescore.files import documents
from phrasescore.files.documents import parse_toml
from phrasescore.training.training_config import BUDGET

AT_CONSTANT_RATE = "with the schedule `constant`, which ends at the rate it begins with"

Sections = Mapping[str, type[Section]]
Values = Mapping[str, Mapping[str, Any]]
"""The values of each section."""


@dataclass(frozen=True)
class Layer:
    """Settings from one source."""

    place: str
    """Origin of the values, for messages."""
    values: Values
    names: Mapping[str, str] = field(default_factory=dict)
    """The name of each value as the user wrote it, for messages; empty for a preset."""


@dataclass(frozen=True)
class Merged:
    """The merged values of all layers."""

    values: dict[str, dict[str, Any]]
    automatic: frozenset[str]
    """Settings whose value is `auto`; they are not among the values."""
    given: dict[str, str]
    """Settings that the user gave, each with its name as the user wrote it."""


def preset_names(folder: Path) -> list[str]:
    """Return the names of the presets in a folder of the package."""
    return sorted(path.stem for path in folder.glob("*.toml"))


def read_presets(folder: Path) -> dict[str, Values]:
    """Return the values of each preset in a folder of the package."""
    return {name: read_preset(folder, name).values for name in preset_names(folder)}


def read_preset(folder: Path, name: str) -> Layer:
    """Return a preset by name.

    Raises:
        UserError: no preset has this name.
    """
    names = preset_names(folder)
    if name not in names:
        raise UserError(f"there is no preset `{name}`; {suggestion(name, names)}")
    return Layer(f"preset {name}", documents.read_toml(folder / f"{name}.toml"))


def read_file(path: Path, sections: Sections) -> Layer:
    """Return the layer of a TOML file.

    Raises:
        UserError: the file cannot be read, is not TOML, or has an unknown section.
    """
    values = read_toml(path, sections)
    return Layer(str(path), values, {key: f"{path}: [{name}] {key}" for name in values for key in values[name]})


def parse_change(text: str, sections: Sections) -> tuple[str, str, Any]:
    """Parse `--set SECTION.KEY=VALUE`; VALUE is TOML or an unquoted string.

    Raises:
        UsageError: the form, section, key or value is invalid. The message suggests the nearest name.
    """
    place = f"--set {text}"
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
    kind = option_types(sections[section]).get(key, str)
    try:
        return section, key, _checked(sections[section], {key: _parsed(written, scalar_type(kind))}, place)[key]
    except UserError as error:
        raise UsageError(str(error)) from None


def _parsed(written: str, kind: type) -> Any:
    """Parse a TOML value; quotes around strings are optional."""
    if kind in (str, Path) and written[0] not in "\"'":
        return written
    try:
        values = parse_toml(f"value = {written}".encode(), "")
    except UserError:
        return written
    return values["value"] if len(values) == 1 else written


def merge_layers(sections: Sections, layers: Sequence[Layer]) -> Merged:
    """Merge layers; later ones take precedence.

    Raises:
        UserError: a key or a value is invalid.
    """
    values: dict[str, dict[str, Any]] = {name: {} for name in sections}
    for layer in layers:
        checked = {name: _checked(sections[name], given, layer.place) for name, given in layer.values.items()}
        if BUDGET & checked.get("training", {}).keys():
            # A budget replaces the whole budget of earlier layers, so that `--epochs 3` removes their time limit.
            values["training"] = {
                key: value for key, value in values["training"].items() if key not in BUDGET and value != AUTO
            }
        for name, given in checked.items():
            values[name] |= given
    automatic = frozenset(key for given in values.values() for key, value in given.items() if value == AUTO)
    return Merged(
        {name: {key: value for key, value in given.items() if key not in automatic} for name, given in values.items()},
        automatic,
        {key: name for layer in layers for key, name in layer.names.items()},
    )


def _checked(section: type[Section], values: Mapping[str, Any], place: str) -> dict[str, Any]:
    """Validate the values of a section.

    Raises:
        UserError: a key is unknown or not a user setting, or a value is invalid.
    """
    known = options_of(section)
    for key in values:
        if key not in known:
            raise UserError(unknown_key(key, known, place))
    automatic = {key: AUTO for key, value in values.items() if value == AUTO and known[key].metadata.get("auto")}
    others = {key: value for key, value in values.items() if key not in automatic}
    return {**check_values(section, others, place), **automatic}


def check_nothing_is_held_out(
    given: Mapping[str, str], validation: str, names: Sequence[str] = ("held_out", "held_out_limit")
) -> None:
    """Check that held-out options are not combined with validation data, which replace held-out data.

    Raises:
        UsageError: an option in `names` was given.
    """
    for name in names:
        if name in given:
            raise UsageError(
                f"{given[name]}: does nothing with {validation}, in whose place sentences are held out; "
                "leave one of them out"
            )


def by_section(function: str, options: Mapping[str, Any], sections: Sections) -> dict[str, dict[str, Any]]:
    """Group keyword arguments of a function by section.

    Raises:
        TypeError: no section has a setting of this name.
    """
    require_known(function, options, sections.values())
    return {
        title: {name: options[name] for name in options_of(section) if name in options}
        for title, section in sections.items()
    }
