"""Train an encoder-decoder on sentences."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import ClassVar

from phrasescore.pairs import PhrasePairs
from phrasescore.parallel_text import MeasuredLoss
from phrasescore.training.bleu import BleuSample
from phrasescore.training.evaluation import SentenceLoss, sentence_loss
from phrasescore.training.pair_task import PairTask
from phrasescore.training.task import BatchLoss, Examples


@dataclass(frozen=True)
class SentenceTask(PairTask):
    """Maximises the mean ln p per target word. Examples are lines of parallel text."""

    unit: ClassVar[str] = "sentence"

    validation: PhrasePairs | None
    """Validation sentences, if any."""
    bleu: BleuSample | None = None
    """Validation sentences to translate."""
    measured: MeasuredLoss = "teacher-forced"
    """The loss that selects the weights."""

    @property
    def measuring(self) -> float:
        """Relative time to evaluate a sentence: two losses and a share of the translations."""
        translated = 0 if self.bleu is None else len(self.bleu.references) / max(1, len(self.validation or ()))
        return 0.5 + 0.5 * translated

    def loss(self, examples: Examples) -> BatchLoss:
        """Return the mean negative log-likelihood per word and end symbol of a batch."""
        log_prob_I = self.log_probs(examples)
        return BatchLoss(-log_prob_I.sum() / len(log_prob_I), len(log_prob_I))

    def measure(self, pairs: PhrasePairs) -> SentenceLoss:
        """Return the loss; on validation data also BLEU of a sample."""
        loss = sentence_loss(self.network, pairs, self.device, self.measured)
        # A loss that is not finite ends training with its own message.
        if pairs is not self.validation or self.bleu is None or not math.isfinite(loss.per_example):
            return loss
        return replace(loss, bleu=self.bleu.score(self.network, self.device))
