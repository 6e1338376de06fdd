"""How the experiment is done: `configs/full.toml`, and `configs/stand-in.toml` for a trial on a small text."""

from __future__ import annotations

from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from experiments.toml import (
    command_options,
    language_model_settings,
    network_settings,
    read_seeds,
    read_values,
)
from moses_integration.build.alignment import METHODS
from moses_integration.build.language_model import ORDERS
from moses_integration.build.pair_alignment import LONGEST_PHRASE
from moses_integration.toolkits.toolkit import ToolkitName
from phrasescore.configuration import check_values, option, unknown_key
from phrasescore.errors import UserError


@dataclass(frozen=True)
class SelectionSection:
    """Data selection; how much of each parallel text is kept stands in corpora.toml."""

    order: int = option(4, "of the models that judge a sentence", minimum=ORDERS[0], maximum=ORDERS[-1])
    lm_words: float = option(418.0, "million words of the language models' text, of all in corpora.toml", minimum=0)


@dataclass(frozen=True)
class LanguageModelSection:
    """The back-off language model."""

    order: int = option(5, "of the model", minimum=ORDERS[0], maximum=ORDERS[-1])
    memory: str = option("50%", "that lmplz sorts in")

    @property
    def gigabytes(self) -> float:
        """What `memory` is; 0 where it says so in another unit than gigabytes."""
        amount = self.memory.removesuffix("G")
        return float(amount) if amount.isdecimal() and self.memory.endswith("G") else 0.0


@dataclass(frozen=True)
class AlignmentSection:
    """Word alignment."""

    method: str = option("eflomal", "see `phrasescore-smt build --aligner`")
    part: int = option(1_000_000, "pairs that are aligned together", minimum=1)
    given: str = option("", "a file of links of the training text, by another aligner, in the place of all that")


@dataclass(frozen=True)
class TablesSection:
    """Phrase and reordering table."""

    toolkit: ToolkitName = option("auto", "what extracts and scores")
    longest_phrase: int = option(LONGEST_PHRASE, "words of a phrase", minimum=1, maximum=LONGEST_PHRASE)
    limit: int = option(100, "translations of a source phrase that the filtered table keeps", minimum=1)
    draw: float = option(1.0, "share of the table that the network is trained on", minimum=0, maximum=1)


@dataclass(frozen=True)
class TuningSection:
    """How each row is tuned and decoded."""

    toolkit: ToolkitName = option("embedded", "of all rows")
    processes: int = option(2, "that decode; each holds the filtered tables", minimum=1)
    nbest: int = option(100, "distinct translations of a list", minimum=1)
    iterations: int = option(10, "decodings at most", minimum=1)
    restarts: int = option(20, "random starts of each search", minimum=0)
    cache: int = option(256, "MB of the file that keeps scores of the neural language model", minimum=1)


@dataclass(frozen=True)
class Config:
    """All of it."""

    selection: SelectionSection
    language_model: LanguageModelSection
    alignment: AlignmentSection
    tables: TablesSection
    tuning: TuningSection
    seeds: tuple[int, ...]
    """Of tuning."""
    network: tuple[str, ...]
    """Options of `phrasescore train`."""
    network_pairs: int
    """That it is trained on, one as often as it comes."""
    cslm: tuple[str, ...]
    """Options of `phrasescore lm train`."""
    unnormalised: bool
    """Whether the neural language model is asked for one row of the softmax a word, as it was trained for that."""


_SECTIONS = {
    "selection": SelectionSection,
    "language_model": LanguageModelSection,
    "alignment": AlignmentSection,
    "tables": TablesSection,
    "tuning": TuningSection,
}


def read_config(path: Path) -> Config:
    """Read a configuration.

    Raises:
        UserError: it cannot be read, has an unknown key or a value of the wrong type, or a command refuses its options.
    """
    values = read_values(path)
    known = [item.name for item in fields(Config)]
    for key in values:
        if key not in known:
            raise UserError(unknown_key(key, known, str(path)))
        if not isinstance(values[key], dict):
            raise UserError(f"{path}: `{key}` must be a section, written [{key}]")
    seeds = read_seeds(values.get("tuning", {}).pop("seeds", [1]), f"{path}: [tuning]")
    sections: dict[str, Any] = {
        name: kind(**check_values(kind, values.get(name, {}), f"{path}: [{name}]")) for name, kind in _SECTIONS.items()
    }
    method = sections["alignment"].method
    if method not in METHODS:
        raise UserError(f"{path}: [alignment]: method is {method!r}; choose one of {', '.join(METHODS)}")
    network, cslm = (command_options(values.get(name, {})) for name in ("network", "cslm"))
    training = network_settings(network, f"{path}: [network]").training
    if training.max_updates is None:
        raise UserError(f"{path}: [network]: has no max_updates, by which the plan tells its hours; give it")
    return Config(
        **sections,
        seeds=seeds,
        network=network,
        network_pairs=training.max_updates * training.batch_size,
        cslm=cslm,
        unnormalised=language_model_settings(cslm, f"{path}: [cslm]", holds_out=True).model.self_normalise > 0,
    )
