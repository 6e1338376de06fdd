"""What a `Trainer` trains: a network, its examples, its loss, and how it is measured."""

from __future__ import annotations

from collections.abc import Iterator, Sized
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray
from torch import Tensor, nn

from phrasescore.device import Device
from phrasescore.training.training_config import TrainingConfig

Examples = NDArray[np.int64]
"""Numbers of some examples, whatever the task counts: the lines of a phrase table, the n-grams of a text."""


@dataclass(frozen=True)
class BatchLoss:
    """The loss on a batch that is learnt from."""

    mean: Tensor
    """What is to fall, with its gradient: nats per term."""
    terms: int
    """How many terms it is the mean of: the batch's pairs, or its words. 0 where there is nothing to learn from."""


class Loss(Protocol):
    """The loss on examples that are not learnt from: a dataclass, whose fields go into `metrics.jsonl`."""

    __dataclass_fields__: ClassVar[dict[str, Any]]

    @property
    def per_example(self) -> float:
        """What is to fall: nats per example."""
        ...

    def __str__(self) -> str:
        """Return it in a few words, for a line about an evaluation."""
        ...


class Task(Protocol):
    """One kind of training. Examples are handed out by number, so that a run resumes in the middle of a pass."""

    unit: ClassVar[str]
    """What an example is called: `pair`, `word`."""

    @property
    def network(self) -> nn.Module:
        """The network, on its device, with its initial weights."""
        ...

    @property
    def config(self) -> TrainingConfig:
        """Optimiser, schedule, budget."""
        ...

    @property
    def device(self) -> Device:
        """Where and how precisely to compute."""
        ...

    @property
    def batches_per_pass(self) -> int:
        """How many batches `batches` yields."""
        ...

    def batches(self, number: int) -> Iterator[Examples]:
        """Yield the batches of a pass, the same ones whenever it is asked for the same pass."""
        ...

    def loss(self, examples: Examples) -> BatchLoss:
        """Return the loss on a batch."""
        ...

    @property
    def measuring(self) -> float:
        """The time to measure an example, as a share of that to learn from one, about."""
        ...

    @property
    def held_out(self) -> Sized:
        """What was taken from the training data to be measured on."""
        ...

    @property
    def validation(self) -> Sized | None:
        """Other data to be measured on, if there is any."""
        ...

    def measure(self, data: Any) -> Loss:
        """Return the loss on `held_out` or `validation`, which are not empty then."""
        ...


TaskT = TypeVar("TaskT", bound=Task)
