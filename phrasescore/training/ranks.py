"""Training by one process, or by several (ranks), which `torchrun` starts; the only module with `torch.distributed`.

Each rank holds the whole network and computes the gradient of its share of each batch; the gradients are summed. This
does not use `DistributedDataParallel`, because its gradients depend on the number of ranks: it averages the means of
the shares, which differ in size. It also needs a backward pass on every rank, but a share may be empty or have no
phrase pairs. The sum in `RankGroup.backward` gives the gradient of the whole batch, in fewer lines than workarounds.
With `sampled_words`, each rank draws its own sample.

Legend: G elements of the gradient followed by the loss.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import timedelta
from typing import Any, NoReturn, TypeVar, cast

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.rendezvous import rendezvous

from phrasescore.errors import UserError, is_out_of_memory
from phrasescore.training.tasks import BatchLoss, Examples

T = TypeVar("T")

_LONGEST_WAIT = timedelta(days=1)
"""Timeout while one rank evaluates. A dead rank is detected by its connections, not by the timeout."""
_FAILURES = "phrasescore/failures"


class Ranks:
    """The interface of a rank among others; here a single process, which is the only rank."""

    world_size = 1
    rank = 0

    @property
    def is_first(self) -> bool:
        """Whether this rank evaluates, writes files and logs."""
        return self.rank == 0

    def device_name(self, name: str) -> str:
        """Return the device name of this rank, for `choose_device`, when the user requests `name`."""
        return name

    def backward(self, network: nn.Module, loss: Callable[[Examples], BatchLoss], examples: Examples) -> BatchLoss:
        """Compute the gradient of the mean loss of a batch, split among the ranks; return the loss."""
        found = loss(examples)
        if found.terms:
            found.mean.backward()
        return replace(found, mean=found.mean.detach())

    def all_reduce_max(self, number: float) -> float:
        """Return the maximum over all ranks."""
        return number

    def barrier(self) -> None:
        self.all_reduce_max(0)

    def broadcast_from_first(self, make: Callable[[], T]) -> T:
        """Call `make` on the first rank and return its result on every rank."""
        return make()


ALONE = Ranks()


class RankGroup(Ranks):
    """One of several ranks: the default group of `torch.distributed`."""

    def __init__(self, rank: int, world_size: int, local_rank: int) -> None:
        self.rank, self.world_size, self._local_rank = rank, world_size, local_rank

    def device_name(self, name: str) -> str:
        """Return the GPU of this local rank, if the machine has GPUs and no particular device is requested."""
        if name not in ("auto", "cuda") or not torch.cuda.is_available():
            return name
        # `choose_device` reports a missing GPU.
        if self._local_rank < torch.cuda.device_count():
            torch.cuda.set_device(self._local_rank)
        return f"cuda:{self._local_rank}"

    def backward(self, network: nn.Module, loss: Callable[[Examples], BatchLoss], examples: Examples) -> BatchLoss:
        """See `Ranks`. Rank r of W computes the gradient of `examples[r::W]`, weighted by the number of its terms.

        A parameter without a gradient on any rank keeps `None`, because optimisers distinguish it from zeros.
        """
        share, parameters = examples[self.rank :: self.world_size], list(network.parameters())
        own = BatchLoss(torch.zeros((), device=parameters[0].device), 0)
        if len(share):
            own = super().backward(network, loss, share)
        counts = self._sum(torch.tensor([own.terms, *(parameter.grad is not None for parameter in parameters)]))
        terms, *shares_with_gradient = counts.tolist()
        learnt = [p for p, shares in zip(parameters, shares_with_gradient, strict=True) if shares]
        gradients = [torch.zeros_like(p) if p.grad is None else p.grad for p in learnt]
        own_G = torch.cat([*(gradient.flatten() for gradient in gradients), own.mean.reshape(1)])
        *parts, mean = self._sum(own_G * (own.terms / max(1, terms))).split([*(p.numel() for p in learnt), 1])
        for parameter, part in zip(learnt, parts, strict=True):
            parameter.grad = part.view_as(parameter).to(parameter.dtype)
        return BatchLoss(mean.squeeze(), terms)

    def all_reduce_max(self, number: float) -> float:
        return self._sum(torch.tensor(number, dtype=torch.float64), dist.ReduceOp.MAX).item()

    def broadcast_from_first(self, make: Callable[[], T]) -> T:
        made = [make() if self.is_first else None]
        with _lost_ranks_reported():
            dist.broadcast_object_list(made)
        return cast(T, made[0])

    def _sum(self, numbers: Tensor, operation: dist.ReduceOp.RedOpType = dist.ReduceOp.SUM) -> Tensor:
        with _lost_ranks_reported():
            dist.all_reduce(numbers, operation)
        return numbers


@contextmanager
def _lost_ranks_reported() -> Iterator[None]:
    """Convert the error of a collective operation when another rank has exited."""
    try:
        yield
    except RuntimeError as error:
        if is_out_of_memory(error):
            raise
        raise UserError(
            "another process of this training has ended, so the training ends; the same command resumes it from the "
            "last checkpoint"
        ) from error


@contextmanager
def joined(address: str = "env://") -> Iterator[Ranks]:
    """Join the other ranks if `torchrun` started this process; otherwise return a single rank.

    If ranks fail, the first one to fail raises its error and the others exit silently. The ranks meet at `address`, by
    default that of the environment variables that `torchrun` sets.
    """
    if address == "env://" and os.environ.get("WORLD_SIZE", "") in ("", "1"):
        yield ALONE
        return
    if "OMP_NUM_THREADS" not in os.environ:
        torch.set_num_threads(1)
    # Gloo exchanges CPU tensors, so that they do not wait for a GPU.
    backend = "cpu:gloo,cuda:nccl" if torch.cuda.is_available() else "gloo"
    try:
        store, rank, world_size = next(rendezvous(address))
        dist.init_process_group(backend, store=store, rank=rank, world_size=world_size, timeout=_LONGEST_WAIT)
        group = RankGroup(rank, world_size, int(os.environ.get("LOCAL_RANK") or "0"))
    except (RuntimeError, ValueError) as error:
        raise UserError(
            f"the other processes of this training do not answer ({error}); start them by torchrun"
        ) from error
    try:
        yield group
    except BaseException as error:
        _fail(error, group, store)
    dist.destroy_process_group()


def _fail(error: BaseException, group: RankGroup, store: Any) -> NoReturn:
    """Raise the error on the first rank that fails, so that it is reported once; exit silently on the others."""
    if isinstance(error, SystemExit):
        raise error
    if isinstance(error, KeyboardInterrupt):
        # All ranks receive the signal.
        raise error if group.is_first else SystemExit(128 + signal.SIGINT)
    try:
        is_first = store.add(_FAILURES, 1) == 1
    except RuntimeError:
        # The process that holds the store has exited.
        is_first = group.is_first
    raise error if is_first else SystemExit(1)
