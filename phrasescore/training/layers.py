"""Settings in layers: preset, TOML file, command line or arguments, of which a later one goes before."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from phrasescore.configuration import Section, check_values
from phrasescore.training.presets import BY_SIZE
from phrasescore.training.training_config import BUDGET

AT_CONSTANT_RATE = "with the schedule `constant`, which ends at the rate it begins with"

Values = Mapping[str, Mapping[str, Any]]
"""The values of each section."""


def merge_layers(
    sections: Mapping[str, type[Section]], layers: Sequence[tuple[str, Values]]
) -> dict[str, dict[str, Any]]:
    """Return the values of each section, those of later layers before those of earlier ones.

    Args:
        sections: those that there are.
        layers: each with what messages call it.

    Raises:
        UserError: a key or a value is wrong.
    """
    values: dict[str, dict[str, Any]] = {name: {} for name in sections}
    for place, layer in layers:
        checked = {name: check_values(sections[name], given, place) for name, given in layer.items()}
        if BUDGET & checked.get("training", {}).keys():
            # A budget replaces the one of the layer below, so that `--epochs 3` does not also mean 15 minutes.
            values["training"] = {key: value for key, value in values["training"].items() if key not in BUDGET}
        for name, given in checked.items():
            values[name] |= given
    return values


def names_given(layers: Sequence[tuple[str, Values]]) -> frozenset[str]:
    """Return the names of the options that some layers give."""
    return frozenset(name for _, layer in layers for values in layer.values() for name in values)


def left_to_size(preset: str, values: Values) -> frozenset[str]:
    """Return which options of a preset that may follow the number of pairs do: those without a value.

    With a budget that is given those of training do not: an evaluation after each twentieth of another one would end it
    too soon, or never come.
    """
    sections = BY_SIZE.get(preset, {})
    if BUDGET & values["training"].keys():
        sections = {name: options for name, options in sections.items() if name != "training"}
    return frozenset(name for section, names in sections.items() for name in names - values[section].keys())
