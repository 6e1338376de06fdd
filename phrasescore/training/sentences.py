"""Training an encoder-decoder on sentences."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import ClassVar

from phrasescore.pairs import PhrasePairs
from phrasescore.sentences import MeasuredLoss
from phrasescore.training.bleu import BleuSample
from phrasescore.training.evaluation import SentenceLoss, sentence_loss
from phrasescore.training.pair_task import PairTask
from phrasescore.training.task import BatchLoss, Examples


@dataclass(frozen=True)
class SentenceTask(PairTask):
    """Maximises the mean ln p of a target word. Its examples are lines of parallel text."""

    unit: ClassVar[str] = "sentence"

    validation: PhrasePairs | None
    """Other sentences, if there are any."""
    bleu: BleuSample | None = None
    """Validation sentences to translate."""
    measured: MeasuredLoss = "teacher-forced"
    """The loss that is to fall."""

    @property
    def measuring(self) -> float:
        """The time to measure a sentence, twice and with its share of translations, for one that is learnt from."""
        translated = 0 if self.bleu is None else len(self.bleu.references) / max(1, len(self.validation or ()))
        return 0.5 + 0.5 * translated

    def loss(self, examples: Examples) -> BatchLoss:
        """Return the mean negative log-likelihood of the words and end symbols of some sentences."""
        log_prob_I = self.log_probs(examples)
        return BatchLoss(-log_prob_I.sum() / len(log_prob_I), len(log_prob_I))

    def measure(self, pairs: PhrasePairs) -> SentenceLoss:
        """Return the loss on some sentences; on those of validation also BLEU, of translations of some of them."""
        loss = sentence_loss(self.network, pairs, self.device, self.measured)
        # A loss that is not a number ends the training, with a sentence of its own.
        if pairs is not self.validation or self.bleu is None or not math.isfinite(loss.per_example):
            return loss
        return replace(loss, bleu=self.bleu.score(self.network, self.device))
