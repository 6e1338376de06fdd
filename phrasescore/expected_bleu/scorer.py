"""What gives a phrase table the column of a trained function of phrase pairs, in the place of a network's `Scorer`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Self

import numpy as np

from phrasescore.device import Precision, choose_device
from phrasescore.errors import UserError
from phrasescore.expected_bleu.features import Bags, features_of
from phrasescore.expected_bleu.model import KIND, PairFunction, load_function
from phrasescore.model_folder import load_again
from phrasescore.pairs import Direction
from phrasescore.scoring.scores import Scores
from phrasescore.table.factors import SURFACE
from phrasescore.workers import Shared, Stored


@dataclass(frozen=True)
class Loading:
    """How to load functions where another process is."""

    functions: tuple[Stored, ...]

    def __call__(self) -> FunctionScorer:
        """Load them.

        Raises:
            UserError: one is not to be seen from there, or is another one now.
        """
        return FunctionScorer([load_again(function, load_function) for function in self.functions])


class FunctionScorer:
    """Gives phrase pairs the value of a function, or the mean of several."""

    kind = KIND
    note: str | None = None
    factors = SURFACE
    """It is trained on translations, in which Moses writes the first factor."""

    def __init__(self, functions: Sequence[PairFunction]) -> None:
        self.models = tuple(functions)
        self.device = choose_device("cpu", "fp32")

    @classmethod
    def load(
        cls,
        *folders: str | Path,
        device: str = "auto",
        precision: Precision = "auto",
        direction: Direction | None = None,
    ) -> Self:
        """Load a function, or several.

        Args:
            folders: that `phrasescore-smt expected-bleu` wrote.
            device: `auto` or `cpu`, for there is nothing that a GPU would do faster.
            precision: `auto` or `fp32`.
            direction: that of the table, or None.

        Raises:
            UserError: a folder holds no function that can be used, or something else is asked for.
        """
        functions = [load_function(Path(folder)) for folder in folders]
        asked = {
            "device": (device, ("auto", "cpu")),
            "precision": (precision, ("auto", "fp32")),
            "direction": (direction, (None, functions[0].direction)),
        }
        for setting, (value, possible) in asked.items():
            if value not in possible:
                raise UserError(f"{setting} `{value}`: is not for a function of phrase pairs; leave it out")
        return cls(functions)

    def shared(self) -> Shared[FunctionScorer]:
        """Return what a task takes of it: it is loaded again where the task is done."""
        return Shared(self, Loading(tuple(model.stored for model in self.models)))

    def encode(self, sources: list[bytes], targets: list[bytes]) -> Bags:
        """Return the features of phrase pairs."""
        return features_of(sources, targets)

    def score_encoded(self, pairs: Bags) -> Scores:
        """Return f of each pair, in the place of ln p."""
        values = np.mean([model.values(pairs) for model in self.models], axis=0)
        return replace(self.count_encoded(pairs), log_prob=values)

    def count_encoded(self, pairs: Bags) -> Scores:
        """Return what is known of pairs without their features: nothing, for there is no vocabulary."""
        zeros = np.zeros(len(pairs), np.int64)
        return Scores(np.full(len(pairs), np.nan), zeros, zeros, zeros, self.models[0].direction)
