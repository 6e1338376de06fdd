"""The configuration of an ablation: a TOML file."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, fields
from functools import partial
from pathlib import Path
from typing import Any

from experiments.ablation.rows import DEFAULT_ROWS, Row
from experiments.toml import check_expected_bleu, check_language_model, command_options, network_settings, read_values
from moses_integration.building.preparation import Casing
from moses_integration.building.system import BuildConfig
from moses_integration.toolkits.toolkit import ToolkitName
from moses_integration.tuning.tunings import TuningConfig
from phrasescore.configuration import Sections, check_values, option, options_of, unknown_key
from phrasescore.errors import UserError
from phrasescore.lm.lm_settings import LM_SECTIONS
from phrasescore.training import settings


@dataclass(frozen=True)
class DataSection:
    """The data set."""

    name: str = option("multi30k", "data set, see experiments.data")
    source: str = option("en", "language code")
    target: str = option("fr", "language code")
    test: tuple[str, ...] = option((), "names of test sets; the first of the data set if empty")
    versions: str = option("", "bible: versions to cross, separated by spaces; all if empty")
    casing: Casing = option("lower", "what to do with capitals, if the text is not tokenised")


@dataclass(frozen=True)
class TuningSection(TuningConfig):
    """Options of tuning, for all rows."""

    sentences: int = option(0, "of the dev set, evenly spread; all if 0", minimum=0)


@dataclass(frozen=True)
class ScoringSection:
    """Sizes of the n-best lists that networks score."""

    rescored: int = option(200, "translations of a sentence that networks score by RESCORING and S2S", minimum=1)


@dataclass(frozen=True)
class Config:
    """An ablation."""

    title: str = option("", "name of the data set on pages")
    toolkit: ToolkitName = option("embedded", "toolkit that builds, tunes and decodes")
    seeds: tuple[int, ...] = (1, 2, 3)
    timed: int = option(100, "test sentences for measuring the decoding time; 0: do not measure it", minimum=0)
    trainings: int = option(1, "training runs of each network, with different seeds", minimum=1)
    rows: tuple[Row, ...] = DEFAULT_ROWS
    data: DataSection = field(default_factory=DataSection)
    build: BuildConfig = field(default_factory=BuildConfig)
    """The system that all rows share."""
    tuning: TuningSection = field(default_factory=TuningSection)
    scoring: ScoringSection = field(default_factory=ScoringSection)
    decoder: dict[str, int] = field(default_factory=dict)
    """Settings of moses.ini, such as `search-algorithm = 1`; both toolkits read them."""
    network: tuple[str, ...] = ()
    """Options of `phrasescore train`."""
    language_model: tuple[str, ...] = ()
    """Options of `phrasescore lm train`."""
    sentence_network: tuple[str, ...] = ()
    """Options of `phrasescore train` for the network that is trained on sentences."""
    context_network: tuple[str, ...] = ()
    """Options of `phrasescore train` for the network that is trained in context."""
    expected_bleu: tuple[str, ...] = ()
    """Options of `phrasescore-smt expected-bleu`."""


_SECTIONS = {"data": DataSection, "build": BuildConfig, "tuning": TuningSection, "scoring": ScoringSection}
_COMMANDS: dict[str, Callable[[Sequence[str], str], object]] = {
    "network": network_settings,
    "language_model": check_language_model,
    "sentence_network": partial(network_settings, learns_from="sentences"),
    "context_network": partial(network_settings, learns_from="aligned"),
    "expected_bleu": check_expected_bleu,
}
"""Validators of the sections that are options of commands."""


def read_config(path: Path, changes: Sequence[str] = ()) -> Config:
    """Read a configuration; `changes` are lines of TOML such as `build.aligner = "hmm"` that override it.

    The default title is the name of the file.

    Raises:
        UserError: the file cannot be read, a key or a type is wrong, or a command rejects its options.
    """
    values = read_values(path, changes)
    _check_shape(values, path)
    for key, section in _SECTIONS.items():
        values[key] = section(**check_values(section, values.get(key, {}), f"{path}: [{key}]"))
    for key, settings_of in _COMMANDS.items():
        values[key] = command_options(values.get(key, {}), _sections_of(key))
        settings_of(values[key], f"{path}: [{key}]")
    if "--direction" in values["network"]:
        raise UserError(f"{path}: [network]: leave out direction; +RNN and +REVERSE set it")
    if "seeds" in values:
        values["seeds"] = tuple(values["seeds"])
    if "rows" in values:
        values["rows"] = _rows(values["rows"], path)
    return Config(**{"title": path.stem, **values})


def _sections_of(key: str) -> Sections:
    """Return the settings of the command that a section configures."""
    if key == "expected_bleu":
        return {}
    return LM_SECTIONS if key == "language_model" else settings.SECTIONS


def _check_shape(values: dict[str, Any], path: Path) -> None:
    """Check the keys outside sections and the types of sections."""
    known = [item.name for item in fields(Config)]
    for key, value in values.items():
        if key not in known:
            raise UserError(unknown_key(key, known, str(path)))
        if key not in (*options_of(Config), "seeds", "rows") and not isinstance(value, dict):
            raise UserError(f"{path}: `{key}` must be a section, written [{key}]")
    check_values(Config, {key: values[key] for key in options_of(Config) if key in values}, str(path))
    if not _are_distinct(values.get("seeds", [1]), int) or min(values.get("seeds", [1])) < 0:
        raise UserError(f"{path}: seeds is {values['seeds']!r}; give different whole numbers, as in [1, 2, 3]")
    if not _are_distinct(values.get("rows", ["baseline"]), str):
        raise UserError(f'{path}: rows is {values["rows"]!r}; give different names, as in ["baseline", "+RNN"]')
    for name, value in values.get("decoder", {}).items():
        if type(value) is not int:
            raise UserError(f"{path}: [decoder]: {name} is {value!r}; give a whole number")
        if name in ("feature", "weight"):
            raise UserError(f"{path}: [decoder]: leave out {name}; the rows set it")


def _are_distinct(values: Any, kind: type) -> bool:
    """Return whether these are one value or several of a type, all different."""
    # Compare types, because `bool` is a subclass of `int`.
    is_list = isinstance(values, list) and all(type(value) is kind for value in values)
    return is_list and 0 < len(values) == len(set(values))


def _rows(names: Sequence[str], path: Path) -> tuple[Row, ...]:
    try:
        rows = tuple(Row.parse(name) for name in names)
    except ValueError as error:
        raise UserError(f"{path}: the row {error}; fix its name") from error
    if len(set(rows)) < len(rows):
        raise UserError(f"{path}: rows has a row twice, with its parts in another order; leave one out")
    return rows
