"""The processes that train one network together, called ranks: one alone, or those that `torchrun` has started.

A training asks its ranks what is its part of the work. One that is alone does everything itself, and needs nothing of
`torch.distributed`; `process_group` has the others.
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
"""How the names of files begin in which one rank hands on to others what it has read."""


class Ranks:
    """One process alone: the first and last rank, whose share is everything."""

    number = 1
    """How many there are."""
    rank = 0

    @property
    def is_first(self) -> bool:
        """Whether this one measures, writes and tells; the others learn only."""
        return self.rank == 0

    def device_name(self, name: str) -> str:
        """Return which device this rank computes on where a user asks for `name`, as `choose_device` takes it."""
        return name

    def backward(self, network: nn.Module, loss: Callable[[Examples], BatchLoss], examples: Examples) -> BatchLoss:
        """Give a network the gradient of the mean loss of a batch, which the ranks share; return that loss.

        Args:
            network: its parameters have no gradients yet.
            loss: the task's, whose mean may be that of a share of the batch.
            examples: of the whole batch.
        """
        found = loss(examples)
        if found.terms:
            found.mean.backward()
        return replace(found, mean=found.mean.detach())

    def largest(self, number: float) -> float:
        """Return the largest of the numbers that the ranks give."""
        return number

    def wait(self) -> None:
        """Wait until all ranks do."""
        self.largest(0)

    def of_first(self, make: Callable[[], T]) -> T:
        """Let the first rank do something, and return on every rank what it returns."""
        return make()

    def once_a_machine(self, read: Callable[[], T], folder: Path) -> T:
        """Let one rank of each machine read something, and return it on every rank.

        Args:
            read: its arrays come to lie in memory that the ranks of a machine share.
            folder: where they are handed on, in a file that is gone afterwards.
        """
        return read()


ALONE = Ranks()
