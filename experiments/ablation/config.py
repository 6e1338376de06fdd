"""The configuration of an ablation: a TOML file."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path

from experiments.ablation.rows import Row
from experiments.toml import command_options, read_values
from moses_integration.build.prepare import Casing
from moses_integration.toolkit import Name
from phrasescore.configuration import check_values, option, unknown_key
from phrasescore.errors import UserError


@dataclass(frozen=True)
class DataSection:
    """Which text."""

    name: str = option("multi30k", "data set, see experiments.data")
    source: str = option("en", "language code")
    target: str = option("fr", "language code")
    versions: str = option("", "bible: versions to cross, blanks between them; all if empty")
    casing: Casing = option("lower", "what to do with capitals, if the text is not tokenised")


@dataclass(frozen=True)
class BuildSection:
    """The system that all rows share."""

    aligner: str = option("eflomal", "word alignment method")
    order: int = option(5, "of the language model", minimum=2)
    longest_phrase: int = option(7, "words of a phrase", minimum=1)


@dataclass(frozen=True)
class TuningSection:
    """How each row is tuned."""

    nbest: int = option(100, "distinct translations of a list", minimum=1)
    iterations: int = option(10, "decodings at most", minimum=1)
    restarts: int = option(20, "random starts of each search", minimum=0)


@dataclass(frozen=True)
class Config:
    """An ablation."""

    toolkit: Name = "embedded"
    seeds: tuple[int, ...] = (1, 2, 3)
    rows: tuple[Row, ...] = (Row.parse("baseline"), Row.parse("+RNN"))
    data: DataSection = field(default_factory=DataSection)
    build: BuildSection = field(default_factory=BuildSection)
    tuning: TuningSection = field(default_factory=TuningSection)
    decoder: dict[str, int] = field(default_factory=dict)
    """Sections of moses.ini, as in `search-algorithm = 1`; either toolkit reads them."""
    network: tuple[str, ...] = ()
    """Options of `phrasescore train`."""
    language_model: tuple[str, ...] = ()
    """Options of `phrasescore lm train`."""
    sentence_network: tuple[str, ...] = ()
    """Options of `phrasescore train` for the network that is trained on sentences."""


def read_config(path: Path, changes: Sequence[str] = ()) -> Config:
    """Read a configuration; `changes` are lines of TOML such as `build.aligner = "hmm"` that come after it.

    Raises:
        UserError: it cannot be read, or has an unknown key or a value of the wrong type.
    """
    values = read_values(path, changes)
    known = {item.name: item for item in fields(Config)}
    for key in values:
        if key not in known:
            raise UserError(unknown_key(key, known, str(path)))
    sections = {"data": DataSection, "build": BuildSection, "tuning": TuningSection}
    for key, section in sections.items():
        values[key] = section(**check_values(section, values.get(key, {}), f"{path}: [{key}]"))
    for key in ("network", "language_model", "sentence_network"):
        values[key] = command_options(values.get(key, {}))
    if "seeds" in values:
        values["seeds"] = tuple(values["seeds"])
    if "rows" in values:
        try:
            values["rows"] = tuple(Row.parse(name) for name in values["rows"])
        except ValueError as error:
            raise UserError(f"{path}: the row {error}; mend its name") from error
    return Config(**values)
