"""The configuration of a comparison: systems, each a list of options of `phrasescore train`, and ways to search."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from experiments.toml import command_options, read_values
from phrasescore.configuration import check_values, option
from phrasescore.errors import UserError


@dataclass(frozen=True)
class DataSection:
    """Which text of Multi30k."""

    source: str = option("en", "language code")
    target: str = option("fr", "language code")


@dataclass(frozen=True)
class System:
    """A network."""

    name: str
    options: dict[str, Any]
    """Of `phrasescore train`, those of all systems and of the systems that this one extends included."""
    published: dict[str, float]
    """What others report of it, on their data."""

    @property
    def command(self) -> tuple[str, ...]:
        """The options as words of a command line."""
        return command_options(self.options)


@dataclass(frozen=True)
class Config:
    """A comparison."""

    title: str
    data: DataSection
    systems: tuple[System, ...]
    searches: tuple[dict[str, Any], ...]
    """Options of `phrasescore translate`."""


_KEYS = {"title", "data", "common", "systems", "searches"}


def read_config(path: Path, changes: Sequence[str] = ()) -> Config:
    """Read a configuration; see `experiments.toml` for the changes.

    Raises:
        UserError: it cannot be read, or says something that is not understood.
    """
    values = read_values(path, changes)
    if values.keys() - _KEYS:
        raise UserError(f"{path}: has {', '.join(sorted(values.keys() - _KEYS))}; known are {', '.join(sorted(_KEYS))}")
    data = DataSection(**check_values(DataSection, values.get("data", {}), f"{path}: [data]"))
    systems: dict[str, System] = {}
    for entry in values.get("systems", []):
        name, base = str(entry.get("name", "")), entry.get("extends")
        if not name or name in systems or (base is not None and base not in systems):
            raise UserError(f"{path}: system `{name}` has no name of its own, or extends none before it; mend it")
        before = values.get("common", {}) if base is None else systems[base].options
        systems[name] = System(name, {**before, **entry.get("options", {})}, entry.get("published", {}))
    if not systems:
        raise UserError(f"{path}: has no [[systems]]; name at least one")
    return Config(str(values.get("title", path.stem)), data, tuple(systems.values()), tuple(values.get("searches", [])))
