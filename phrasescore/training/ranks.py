"""The interface to the ranks of a training run, and its implementation for a single process.

A single process does not need `torch.distributed`; `process_group` implements several ranks, started by `torchrun`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from torch import nn

    from phrasescore.training.task import BatchLoss, Examples

T = TypeVar("T")

HANDED_ON = "read-by-rank-"
"""Prefix of temporary files by which one rank transfers data to others."""


class Ranks:
    """A single process, which is the only rank."""

    number = 1
    """Number of ranks."""
    rank = 0

    @property
    def is_first(self) -> bool:
        """Whether this rank evaluates, writes files and logs."""
        return self.rank == 0

    def device_name(self, name: str) -> str:
        """Return the device name of this rank, for `choose_device`, when the user requests `name`."""
        return name

    def backward(self, network: nn.Module, loss: Callable[[Examples], BatchLoss], examples: Examples) -> BatchLoss:
        """Compute the gradient of the mean loss of a batch, split among the ranks; return the loss.

        Args:
            network: the network, whose gradients are `None`.
            loss: computes the loss of the share of a rank.
            examples: the whole batch.
        """
        found = loss(examples)
        if found.terms:
            found.mean.backward()
        return replace(found, mean=found.mean.detach())

    def largest(self, number: float) -> float:
        """Return the maximum over all ranks."""
        return number

    def wait(self) -> None:
        """Wait until all ranks do."""
        self.largest(0)

    def of_first(self, make: Callable[[], T]) -> T:
        """Call `make` on the first rank and return its result on every rank."""
        return make()

    def once_a_machine(self, read: Callable[[], T], folder: Path) -> T:
        """Call `read` on one rank of each machine and return its result on every rank.

        Args:
            read: returns arrays, which the ranks of a machine then share in memory.
            folder: folder of the temporary file that transfers them.
        """
        return read()


ALONE = Ranks()
