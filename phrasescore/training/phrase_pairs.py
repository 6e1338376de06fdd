"""Training an encoder-decoder on phrase pairs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from phrasescore.pairs import PhrasePairs
from phrasescore.training.choice import ChoiceLoss, ChoiceMeasure
from phrasescore.training.evaluation import PairLoss, mean_loss
from phrasescore.training.pair_task import PairTask
from phrasescore.training.task import BatchLoss, Examples


@dataclass(frozen=True)
class PhrasePairTask(PairTask):
    """Maximises the mean ln p(target | source) of phrase pairs (Eq. 4). Its examples are lines of a phrase table."""

    unit: ClassVar[str] = "pair"

    validation: PhrasePairs | ChoiceMeasure | None
    """Pairs of other sentences, or choices to be made in them, if there are any."""

    def loss(self, examples: Examples) -> BatchLoss:
        """Return the mean negative log-likelihood of some pairs, weighted."""
        return BatchLoss(-self.log_probs(examples).sum() / len(examples), len(examples))

    def held_out_loss(self) -> PairLoss | None:
        """Return the loss on the held-out pairs."""
        return mean_loss(self.network, self.held_out, self.device) if len(self.held_out) else None

    def validation_loss(self) -> PairLoss | ChoiceLoss | None:
        """Return the loss on the validation pairs, or of the choices."""
        if isinstance(self.validation, ChoiceMeasure):
            return self.validation.loss()
        return mean_loss(self.network, self.validation, self.device) if self.validation else None
