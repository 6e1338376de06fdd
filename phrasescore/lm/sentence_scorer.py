"""The neural language model as a scorer of n-best lists: ln p of the target sentence, independent of the source."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Self

import numpy as np

from phrasescore.device import Device
from phrasescore.lm.lm_scorer import Loading, NeuralLmScorer
from phrasescore.scoring.columns import SCORE, UNKNOWN_TARGET, Column
from phrasescore.scoring.occurrences import Occurrences
from phrasescore.scoring.scorer import PhraseScorer, Scores, WordCounts
from phrasescore.words import split_words

_UNNORMALISED = Column("unnormalised")


class LanguageModelScorer(PhraseScorer):
    """Scores the target side of sentence pairs with a neural language model."""

    unit = "sentence"

    def __init__(self, model: NeuralLmScorer) -> None:
        super().__init__([model.model.folder], model.device)
        self.model = model
        self.columns = (_UNNORMALISED if model.unnormalised else SCORE, UNKNOWN_TARGET)

    @classmethod
    def load(cls, folder: Path, device: Device, backoff: Path | None = None, *, unnormalised: bool = False) -> Self:
        """Load a model folder; see `NeuralLmScorer.load`."""
        model = NeuralLmScorer.load(folder, device, backoff, unnormalised)
        scorer = cls(model)
        scorer.recipe = _Recipe(Loading(model.model.stored, device, backoff and backoff.resolve(), unnormalised))
        return scorer

    @property
    def fingerprint(self) -> str:
        """SHA-256 of the weights."""
        return self.model.model.weights_digest

    def score(self, occurrences: Occurrences, columns: Sequence[Column] = ()) -> Scores:
        """See `PhraseScorer`. Unknown words are those outside the shortlist."""
        sentences, columns = [split_words(target) for target in occurrences.targets], columns or self.columns[:1]
        vocabulary = self.model.model.vocabulary
        unknown_N = np.array([sum(word not in vocabulary for word in words) for words in sentences], np.float64)
        values = {UNKNOWN_TARGET: unknown_N}
        if not values.keys() >= {*columns}:
            values[self.columns[0]] = np.array(self.model.sentence_log_probs(sentences), np.float64)
        counts = WordCounts(target=sum(map(len, sentences)), target_unknown=int(unknown_N.sum()))
        return Scores(np.stack([values[column] for column in columns], axis=1), counts)


@dataclass(frozen=True)
class _Recipe:
    """Loads the scorer in a worker process."""

    loading: Loading

    def __call__(self) -> PhraseScorer:
        return LanguageModelScorer(self.loading())
