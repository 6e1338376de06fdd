"""What a `Trainer` trains: network, examples, loss."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sized
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray
from torch import Tensor, nn

from phrasescore.device import Device
from phrasescore.training.training_config import TrainingConfig

Examples = NDArray[np.int64]
"""Indices of examples, such as lines of a phrase table or n-grams of a text."""


@dataclass(frozen=True)
class BatchLoss:
    """The loss on a training batch."""

    mean: Tensor
    """Mean loss with its gradient, in nats per term."""
    terms: int
    """Number of terms (pairs or words) in the mean; 0 if the batch has nothing to train on."""


class Loss(Protocol):
    """The loss on held-out or validation examples: a dataclass whose fields are written to `metrics.jsonl`."""

    __dataclass_fields__: ClassVar[dict[str, Any]]

    @property
    def per_example(self) -> float:
        """The loss that selects the weights, in nats per example."""
        ...

    def __str__(self) -> str:
        """Return a short text for the log."""
        ...


@dataclass(frozen=True)
class Task(ABC):
    """A kind of training. Examples are numbered, so that a run can be resumed in the middle of an epoch."""

    unit: ClassVar[str]
    """Name of an example, such as `pair` or `word`."""

    network: nn.Module
    """On its device, with its initial weights."""
    config: TrainingConfig
    device: Device
    held_out: Sized
    """Held-out examples of the training data."""
    validation: Sized | None
    """Validation data, if any."""

    @property
    @abstractmethod
    def batches_per_epoch(self) -> int:
        """Number of batches per epoch."""

    @abstractmethod
    def batches(self, epoch: int) -> Iterator[Examples]:
        """Yield the batches of an epoch; they depend only on its number."""

    @abstractmethod
    def loss(self, examples: Examples) -> BatchLoss:
        """Return the loss on a batch."""

    @abstractmethod
    def measure(self, data: Any) -> Loss:
        """Return the loss on `held_out` or `validation`; the argument is never empty."""


TaskT = TypeVar("TaskT", bound=Task)
