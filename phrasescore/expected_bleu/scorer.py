"""The phrase-pair model as a scorer."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Self

import numpy as np

from phrasescore.expected_bleu.features import features_of
from phrasescore.expected_bleu.model import PhrasePairModel, load_phrase_pair_model
from phrasescore.scoring.columns import EXPECTED_BLEU, Column
from phrasescore.scoring.occurrences import Occurrences
from phrasescore.scoring.scorer import PhraseScorer, Scores, fingerprint_of


class PhrasePairScorer(PhraseScorer):
    """Scores phrase pairs by a phrase-pair model, or by the mean of several."""

    columns = (EXPECTED_BLEU,)

    def __init__(self, models: Sequence[PhrasePairModel]) -> None:
        super().__init__([model.folder for model in models])
        self.models = tuple(models)

    @classmethod
    def load(cls, folders: Sequence[Path]) -> Self:
        """See `PhraseScorer`."""
        return cls([load_phrase_pair_model(folder) for folder in folders])

    @property
    def fingerprint(self) -> str:
        """SHA-256 of the weights."""
        return fingerprint_of([model.weights_digest for model in self.models])

    def score(self, occurrences: Occurrences, columns: Sequence[Column] = ()) -> Scores:
        """See `PhraseScorer`. A value is a term of a log-linear model, so it may be positive."""
        features = features_of(occurrences.sources, occurrences.targets)
        value_N = np.mean([model.values(features) for model in self.models], axis=0)
        return Scores(np.stack([value_N for _ in columns or self.columns], axis=1))
