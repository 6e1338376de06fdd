"""The interface of scorers, and loading them: one class and one registration for each kind of model folder.

`config.json` of the folder names the kind. `annotate`, the per-text phrase tables of +CTX, `rescore`, `score` and the
Python functions accept any scorer. `docs/plugins.md` shows how a plugin registers a scorer.

Shapes: N occurrences, K columns.
"""

from __future__ import annotations

import hashlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray

from phrasescore.device import Device, Precision, choose_device, configure_memory, one_thread
from phrasescore.errors import UserError, arg_name
from phrasescore.model_files import model_kind
from phrasescore.pairs import Direction
from phrasescore.plugins import NotRegisteredError, Registry, load_plugins, loaded_plugins, plugins_blamed
from phrasescore.scoring.columns import SCORE, UNNORMALISED, Column
from phrasescore.scoring.occurrences import Occurrences
from phrasescore.table.criteria import Criterion
from phrasescore.table.entry import SURFACE, Entry, Factors
from phrasescore.vocabulary import WordCounts
from phrasescore.workers import Reloadable

_NO_WORDS = WordCounts()


@dataclass(frozen=True)
class Scores:
    """Values of the requested columns for each occurrence, in the order of the input."""

    values_NK: NDArray[np.float64]
    words: WordCounts = _NO_WORDS
    """All 0 for a scorer without a vocabulary."""

    @property
    def first_N(self) -> NDArray[np.float64]:
        return self.values_NK[:, 0]


class PhraseScorer(ABC, Reloadable):
    """Scores occurrences of phrase pairs."""

    columns: tuple[Column, ...] = (SCORE,)
    """The available columns; the first is the default."""
    unit: Literal["phrase", "sentence"] = "phrase"
    """The unit of the training data: `rescore` passes the phrases of a derivation, or source and target sentence."""
    in_context: bool = False
    direction: Direction = "target-given-source"
    factors: Factors | None = None
    """The factors of a table's words that form the words of the model; None for the surface form, and for plain text.
    """

    def __init__(self, folders: Sequence[Path] = (), device: Device | None = None) -> None:
        """Set the model folders and the device, by default the CPU."""
        self.folders = tuple(folders)
        self.device = device or choose_device("cpu", "fp32")

    @property
    @abstractmethod
    def fingerprint(self) -> str:
        """SHA-256 of everything that determines the values, except for plugins, device and precision."""

    @abstractmethod
    def score(self, occurrences: Occurrences, columns: Sequence[Column] = ()) -> Scores:
        """Return the values of some of `self.columns`, by default of the first; log-probabilities are natural logs."""

    @property
    def name(self) -> str:
        return ", ".join(map(str, self.folders))

    @property
    def note(self) -> str | None:
        """A warning about scoring phrases without their sentences, None if the scorer needs none."""
        if not self.in_context:
            return None
        return (
            f"{self.name}: conditions on the sentence but scores these phrases without their sentences; "
            f"`tune` with {arg_name('in_context')} gives it the sentences"
        )

    @property
    def context_column(self) -> Column:
        """The column of per-text tables: unnormalised scores if the scorer has them, because they are much faster."""
        return UNNORMALISED if UNNORMALISED in self.columns else self.columns[0]

    def column(self, name: str) -> Column:
        for column in self.columns:
            if column.name == name:
                return column
        names = ", ".join(column.name for column in self.columns)
        raise UserError(f"{self.name}: has no column `{name}`; choose among {names}")

    def criterion(self) -> Criterion:
        """Return the first column as a criterion for pruning a table."""
        return _ScoreCriterion(ScoringTask(self, self.columns[:1]))

    def run_fingerprint(self) -> dict[str, Any]:
        """Return everything that determines the values, by names for messages, for the fingerprint of a run."""
        return {
            "model": self.fingerprint,
            "plugin": list(loaded_plugins().values()),
            "device": self.device.torch_device.type,
            "precision": self.device.precision,
            "torch": torch.__version__,
        }


def require_in_context(scorer: PhraseScorer) -> None:
    """Raise a UserError for a scorer that does not condition on sentences."""
    if not scorer.in_context:
        raise UserError(
            f"{scorer.name}: does not condition on the sentence, so `annotate` writes its column once for all texts; "
            f"give a model that does, as `train` with {arg_name('alignment')} trains"
        )


@dataclass(frozen=True)
class ScoringTask:
    """Scores occurrences in a worker process."""

    scorer: PhraseScorer
    columns: tuple[Column, ...]

    def __call__(self, occurrences: Occurrences) -> Scores:
        with plugins_blamed(), one_thread():
            return self.scorer.score(occurrences, self.columns)


@dataclass(frozen=True)
class _ScoreCriterion(Criterion):
    """The first column of a scorer, for pruning a table."""

    scoring: ScoringTask

    @property
    def factors(self) -> Factors:  # type: ignore[override]
        return self.scoring.scorer.factors or SURFACE

    def read(self, entry: Entry) -> tuple[float, ...]:
        return ()

    def values(self, entries: Sequence[Entry], numbers_NK: NDArray[np.float64]) -> NDArray[np.float64]:
        return self.scoring(Occurrences(*self.factors.network_phrases(entries))).first_N

    def fingerprint(self) -> dict[str, Any]:
        return self.scoring.scorer.run_fingerprint()


def fingerprint_of(digests: Sequence[str]) -> str:
    """Return the SHA-256 of a single model, or one for several that does not depend on their order."""
    return digests[0] if len(digests) == 1 else hashlib.sha256(" ".join(sorted(digests)).encode()).hexdigest()


Loader = Callable[[Sequence[Path], str, Precision], PhraseScorer]
"""Takes one or more model folders of one kind, the device and the precision as the user names them."""
SCORERS: Registry[Loader] = Registry("kind of scorer")
register_scorer = SCORERS.register


@register_scorer("encoder-decoder")
def _load_encoder_decoder(folders: Sequence[Path], device: str, precision: Precision) -> PhraseScorer:
    from phrasescore.scoring.encoder_decoder import EncoderDecoderScorer

    return EncoderDecoderScorer.load(folders, device, precision)


@register_scorer("expected-bleu")
def _load_phrase_pair_model(folders: Sequence[Path], device: str, precision: Precision) -> PhraseScorer:
    from phrasescore.scoring.phrase_pair_model import PhrasePairScorer, load_phrase_pair_model

    return PhrasePairScorer([load_phrase_pair_model(folder) for folder in folders])


def load_scorer(*folders: str | Path, device: str = "auto", precision: Precision = "auto") -> PhraseScorer:
    """Load a scorer from its model folder; several folders of one kind give the mean of their scores.

    `device` is `auto`, `cpu`, `cuda` or `cuda:N`; `precision` is that of matrix products: `auto`, `fp32`, `bf16` or
    `int8`.
    """
    paths = [Path(folder) for folder in folders]
    if not paths:
        raise UserError("load_scorer(): no model folder is given; give one that `phrasescore train` wrote")
    kinds = {model_kind(path): path for path in paths}
    if len(kinds) > 1:
        (first, one), (second, other) = list(kinds.items())[:2]
        raise UserError(f"{one}: is of the kind {first}, {other} of the kind {second}; give folders of one kind")
    [kind] = kinds
    try:
        load = SCORERS[kind]
    except NotRegisteredError as error:
        raise UserError(f"{paths[0]}: {error}") from error
    scorer = load(paths, device, precision)
    options = ("device", str(scorer.device.torch_device)), ("precision", scorer.device.precision)
    scorer.recipe = Recipe(load_scorer, tuple(path.resolve() for path in paths), scorer.fingerprint, options)
    return scorer


@dataclass(frozen=True)
class Recipe:
    """Loads a scorer in a worker process; a change since the main process loaded it is a UserError."""

    load: Callable[..., PhraseScorer]
    arguments: tuple[Any, ...]
    fingerprint: str
    options: tuple[tuple[str, Any], ...] = ()
    plugins: tuple[str, ...] = field(default_factory=lambda: tuple(loaded_plugins()))

    def __call__(self) -> PhraseScorer:
        configure_memory()
        with plugins_blamed():
            load_plugins(self.plugins)
            scorer = self.load(*self.arguments, **dict(self.options))
        if scorer.fingerprint != self.fingerprint:
            raise UserError(f"{scorer.name}: has changed while it was used; start again when it is complete")
        return scorer
