"""Options and settings of the command line that are generated from configuration dataclasses."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping
from dataclasses import Field
from pathlib import Path
from typing import Any

from phrasescore.cli.parser import CommandParser
from phrasescore.configuration import (
    AUTO,
    Section,
    Sections,
    Values,
    choices,
    flags_of,
    is_list,
    option_types,
    options_of,
    range_fault,
    scalar_type,
)
from phrasescore.errors import flag


def add_section_options(
    parser: argparse.ArgumentParser,
    title: str,
    section: type[Section],
    presets: Mapping[str, Values] | None = None,
) -> argparse._ArgumentGroup:
    """Add the flags of a configuration section, with None as default, and return their group.

    Args:
        parser: the parser.
        title: title of the group.
        section: the configuration section.
        presets: settings by preset name and section, which the help shows as defaults.
    """
    group = parser.add_argument_group(title)
    kinds = option_types(section)
    for name, item in flags_of(section).items():
        kind, text = scalar_type(kinds[name]), _help(item, title, presets)
        if item.metadata["is_switch"]:
            group.add_argument(flag(name), action="store_const", const=True, help=item.metadata["help"])
            continue
        if kind is bool:
            group.add_argument(flag(name), action=argparse.BooleanOptionalAction, default=None, help=text)
            continue
        allowed = choices(kinds[name])
        metavar = item.metadata["metavar"] or (None if allowed else _METAVARS[kind])
        if is_list(kinds[name]):
            group.add_argument(flag(name), type=kind, nargs="+", action="extend", metavar=metavar, help=text)
            continue
        parse = _number(item, kind) if kind in (int, float) else kind
        group.add_argument(flag(name), type=parse, choices=allowed or None, metavar=metavar, default=None, help=text)
    return group


def add_settings_help(
    parser: CommandParser,
    sections: Sections,
    presets: Mapping[str, Values],
) -> None:
    """Let --help-all list the settings without a flag."""
    for title, section in sections.items():
        kinds = option_types(section)
        for name, item in options_of(section).items():
            if not item.metadata["flag"]:
                allowed, kind = choices(kinds[name]), scalar_type(kinds[name])
                allowed = ("true", "false") if kind is bool else allowed
                value = f"{{{','.join(allowed)}}}" if allowed else _METAVARS[kind]
                parser.add_setting(f"{title}.{name}={value}", _help(item, title, presets))


_METAVARS = {int: "N", float: "X", str: "NAME", Path: "FILE"}


def _help(item: Field[Any], title: str, presets: Mapping[str, Values] | None) -> str:
    chosen = {name: preset.get(title, {}) for name, preset in (presets or {}).items()}
    by_preset = {name: values.get(item.name, item.default) for name, values in chosen.items()}
    text, default = str(item.metadata["help"]), _default(item.default, by_preset)
    return text + (f" (default: {default})" if default and "(default: " not in text else "")


def _number(item: Field[Any], kind: type) -> Callable[[str], Any]:
    """Return a parser for the numbers of a field, which checks their range."""

    def number(text: str) -> Any:
        if text == AUTO and item.metadata["auto"]:
            return text
        value = kind(text)
        if fault := range_fault(item, kind, value):
            raise argparse.ArgumentTypeError(fault)
        return value

    return number


def _default(default: Any, by_preset: Mapping[str, Any]) -> str:
    """Format a default for the help, with the presets that differ from it."""
    names: dict[str, list[str]] = {}
    for name, value in by_preset.items():
        names.setdefault(_shown(value), []).append(name)
    if len(names) < 2:
        only = next(iter(names), _shown(default))
        return "" if only == _shown(None) else only
    return "; ".join(f"{value} with {', '.join(some)}" for value, some in names.items())


def _shown(value: Any) -> str:
    if value == ():
        return ""
    return str(value).lower() if value is None or isinstance(value, bool) else str(value)


def given_options(args: argparse.Namespace, section: type[Section]) -> dict[str, Any]:
    """Return the options of a section that were given on the command line."""
    kinds = option_types(section)
    given = {name: getattr(args, name) for name in flags_of(section)}
    return {name: tuple(value) if is_list(kinds[name]) else value for name, value in given.items() if value is not None}
