"""The configuration of a comparison: the options of `phrasescore train` for each system, and the measurements."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, Literal

from experiments.toml import check_search, command_options, network_settings, read_values
from phrasescore.configuration import check_values, option, unknown_key
from phrasescore.errors import UserError
from phrasescore.training.settings import SECTIONS


@dataclass(frozen=True)
class System:
    """A system: a name and the options of its network."""

    name: str
    base: str | None
    """The system that this one extends."""
    options: dict[str, Any]
    """Options of `phrasescore train`, including common and inherited options."""
    published: dict[str, float]
    """Published figures, measured on other data."""

    @property
    def command(self) -> tuple[str, ...]:
        """The options as words of a command line."""
        return command_options(self.options, SECTIONS)


@dataclass(frozen=True)
class Task:
    """The task that the systems are trained for."""

    title: str = option("", "of the comparison")
    learns_from: Literal["sentences", "table"] = option("sentences", "text of Multi30k, or a phrase table")
    source: str = option("en", "language code, of sentences")
    target: str = option("fr", "language code, of sentences")
    test: tuple[str, ...] = option((), "names of test sets, of sentences; the first of Multi30k if empty")


@dataclass(frozen=True)
class Config:
    """A comparison."""

    task: Task
    systems: tuple[System, ...]
    searches: tuple[dict[str, Any], ...]
    """Options of `phrasescore translate`."""


def read_config(path: Path, changes: Sequence[str] = (), *, gpu: bool = False) -> Config:
    """Read a configuration.

    Args:
        path: path of the TOML file.
        changes: see `experiments.toml`.
        gpu: whether the section [gpu] overrides the common options of all systems.

    Raises:
        UserError: the file cannot be read, or a key or a value is invalid.
    """
    values = read_values(path, changes)
    known = ["common", "gpu", "systems", "searches", *(item.name for item in fields(Task))]
    for key in values.keys() - known:
        raise UserError(unknown_key(key, known, str(path)))
    common, on_gpu = (_section(values.pop(key, {}), f"{path}: [{key}]") for key in ("common", "gpu"))
    systems, searches = (_sections(values.pop(key, []), path, key) for key in ("systems", "searches"))
    task = Task(**check_values(Task, values, str(path)))
    for search in searches:
        check_search(command_options(search), f"{path}: [[searches]]")
    found = _systems(systems, {**common, **(on_gpu if gpu else {})}, path)
    for system in found:
        network_settings(system.command, f"{path}: system `{system.name}`", learns_from=task.learns_from)
    return Config(task, found, tuple(searches))


def _section(value: Any, place: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise UserError(f"{place} is {value!r}; give a section of keys and values")
    return value


def _sections(values: Any, path: Path, key: str) -> list[dict[str, Any]]:
    if not isinstance(values, list):
        raise UserError(f"{path}: {key} is no list of sections; begin each with [[{key}]]")
    return [_section(value, f"{path}: [[{key}]] {number}") for number, value in enumerate(values, 1)]


def _systems(entries: Sequence[dict[str, Any]], common: dict[str, Any], path: Path) -> tuple[System, ...]:
    systems: dict[str, System] = {}
    for entry in entries:
        name, base = str(entry.get("name", "")), entry.get("extends")
        if not name or name in systems or (base is not None and base not in systems):
            raise UserError(f"{path}: system `{name}` has no unique name, or extends no earlier system; fix it")
        options, published = (
            _section(entry.get(part, {}), f"{path}: {part} of `{name}`") for part in ("options", "published")
        )
        before = common if base is None else systems[base].options
        systems[name] = System(name, base, {**before, **options}, published)
    if not systems:
        raise UserError(f"{path}: has no [[systems]]; name at least one")
    return tuple(systems.values())
