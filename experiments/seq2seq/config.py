"""The configuration of a comparison: systems, each a list of options of `phrasescore train`, and what is measured."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from experiments.toml import LearnsFrom, command_options, network_settings, read_values
from phrasescore.configuration import check_values, option, unknown_key
from phrasescore.errors import UserError
from phrasescore.search.config import SearchConfig


@dataclass(frozen=True)
class DataSection:
    """Which text of Multi30k."""

    source: str = option("en", "language code")
    target: str = option("fr", "language code")


@dataclass(frozen=True)
class PhrasesSection:
    """How systems are compared as scorers of phrases."""

    cpu_minutes: float = option(
        15.0,
        "time to train each, of all threads, reading and evaluating left out; on a GPU minutes of the clock",
        minimum=0.001,
    )
    best: int = option(3, "systems whose column is tried in the row +RNN of the ablation", minimum=0)
    lines: int = option(16_384, "lines of the table that are scored to see how fast", minimum=1)
    probed_updates: int = option(60, "updates from which the time of an update is taken", minimum=1)


@dataclass(frozen=True)
class System:
    """A network."""

    name: str
    base: str | None
    """The system that this one extends."""
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
    phrases: PhrasesSection | None
    """None for translators of sentences."""


_BUDGETS = {"epochs", "max_updates", "max_minutes"}
"""Options that end a training."""
_KEYS = {"title", "data", "common", "gpu", "systems", "searches", "phrases"}


def read_config(path: Path, changes: Sequence[str] = (), *, gpu: bool = False) -> Config:
    """Read a configuration.

    Args:
        path: the file.
        changes: see `experiments.toml`.
        gpu: whether the section [gpu] changes the options that all systems have.

    Raises:
        UserError: it cannot be read, or says something that is not understood.
    """
    values = read_values(path, changes)
    _check_shape(values, path)
    for key in sorted(values.keys() - _KEYS):
        raise UserError(unknown_key(key, _KEYS, str(path)))
    if "phrases" in values and values.keys() & {"data", "searches"}:
        raise UserError(f"{path}: has [phrases], the text of which is an ablation's; leave [data] and [[searches]] out")
    phrases = None
    if "phrases" in values:
        phrases = PhrasesSection(**check_values(PhrasesSection, values["phrases"], f"{path}: [phrases]"))
    data = DataSection(**check_values(DataSection, values.get("data", {}), f"{path}: [data]"))
    common = {**values.get("common", {}), **(values.get("gpu", {}) if gpu else {})}
    searches = tuple(values.get("searches", []))
    for search in searches:
        search_config(search, f"{path}: [[searches]]")
    systems = _systems(values.get("systems", []), common, path)
    for system in systems:
        learns_from: LearnsFrom = "sentences" if phrases is None else "table"
        network_settings(system.command, f"{path}: system `{system.name}`", learns_from=learns_from)
    for system in systems if phrases else ():
        for key in sorted({name.replace("-", "_") for name in system.options} & _BUDGETS):
            raise UserError(
                f"{path}: system `{system.name}` has {key}, but [phrases] trains all for equal time; leave it out and "
                "give cpu_minutes"
            )
    return Config(str(values.get("title", path.stem)), data, systems, searches, phrases)


def _check_shape(values: Mapping[str, Any], path: Path) -> None:
    """Check what is a section and what a list of them."""
    sections = {f"[{key}]": values.get(key, {}) for key in ("data", "common", "gpu", "phrases")}
    for key in ("systems", "searches"):
        entries = values.get(key, [])
        if not isinstance(entries, list):
            raise UserError(f"{path}: {key} is no list of sections; begin each with [[{key}]]")
        for number, entry in enumerate(entries, 1):
            sections[f"[[{key}]] {number}"] = entry
            for part in ("options", "published"):
                sections[f"{part} of [[{key}]] {number}"] = entry.get(part, {}) if isinstance(entry, dict) else {}
    for name, section in sections.items():
        if not isinstance(section, dict):
            raise UserError(f"{path}: {name} is {section!r}; give a section of keys and values")


def _systems(entries: Sequence[Mapping[str, Any]], common: dict[str, Any], path: Path) -> tuple[System, ...]:
    systems: dict[str, System] = {}
    for entry in entries:
        name, base = str(entry.get("name", "")), entry.get("extends")
        if not name or name in systems or (base is not None and base not in systems):
            raise UserError(f"{path}: system `{name}` has no name of its own, or extends none before it; mend it")
        before = common if base is None else systems[base].options
        systems[name] = System(name, base, {**before, **entry.get("options", {})}, entry.get("published", {}))
    if not systems:
        raise UserError(f"{path}: has no [[systems]]; name at least one")
    return tuple(systems.values())


def search_config(options: Mapping[str, Any], place: str) -> SearchConfig:
    """Return options of `phrasescore translate` as it has them; `place` says where they come from.

    Raises:
        UserError: one does not exist, or has a value that it cannot have.
    """
    values = {name.replace("-", "_"): value for name, value in options.items()}
    return SearchConfig(**check_values(SearchConfig, values, place))
