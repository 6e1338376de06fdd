"""Distributed training: the only module that uses `torch.distributed`.

Legend: G elements of the gradient followed by the loss.
"""

from __future__ import annotations

import math
import mmap
import os
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any, BinaryIO, NoReturn, TypeVar, cast

import numpy as np
import torch
import torch.distributed as dist
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.distributed.rendezvous import rendezvous

from phrasescore.errors import UsageError, UserError, is_out_of_memory, spelled
from phrasescore.files import full_disk_told, open_hidden
from phrasescore.training.ranks import HANDED_ON, Ranks
from phrasescore.training.task import BatchLoss, Examples
from phrasescore.transfer import with_each

T = TypeVar("T")

_LONGEST_WAIT = timedelta(days=1)
"""Timeout while one rank reads a table or evaluates. A dead rank is detected by its connections, not by the timeout."""
_FAILURES = "phrasescore/failures"
"""Key of the counter of failed ranks."""
_ALIGNMENT = 64


@contextmanager
def _together() -> Iterator[None]:
    """Convert errors of collective operations.

    Raises:
        UserError: another rank has exited.
    """
    try:
        yield
    except RuntimeError as error:
        if is_out_of_memory(error):
            raise
        raise UserError(
            "another process of this training has ended, and with it the training; the same command resumes it from "
            "the last saved state"
        ) from error


class RankGroup(Ranks):
    """Ranks on one or more machines; each holds a replica of the network."""

    def __init__(self, rank: int, number: int, local_rank: int) -> None:
        """Represent one rank of the default group of `torch.distributed`.

        Args:
            rank: global rank; the ranks of a machine are consecutive.
            number: number of ranks.
            local_rank: rank on this machine.
        """
        self.rank, self.number, self._local_rank = rank, number, local_rank

    def device_name(self, name: str) -> str:
        """Return the GPU of this local rank, if a GPU is requested and the machine has one.

        Raises:
            UsageError: `name` is one particular GPU for all ranks.
            UserError: the machine has fewer GPUs than ranks.
        """
        if name.startswith("cuda:"):
            raise UsageError(
                f"{spelled('device')}: {name} cannot serve {self.number} processes; give cuda, and each takes one"
            )
        found = torch.cuda.device_count()
        if name not in ("auto", "cuda") or not found:
            return name
        if self._local_rank >= found:
            raise UserError(
                f"{spelled('device')}: there are {found} GPUs here and more processes; start as many as it has "
                f"GPUs, or give {spelled('device', 'cpu')}"
            )
        torch.cuda.set_device(self._local_rank)
        return f"cuda:{self._local_rank}"

    def backward(self, network: nn.Module, loss: Callable[[Examples], BatchLoss], examples: Examples) -> BatchLoss:
        """See `Ranks`. Rank r of W computes the gradient of `examples[r::W]`, weighted by the number of its terms.

        The sum is the gradient of the whole batch, not the mean over ranks, whose shares differ in size and may be
        empty. A parameter without a gradient on any rank keeps `None`, because optimisers distinguish it from zeros.
        """
        share, parameters = examples[self.rank :: self.number], list(network.parameters())
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

    def largest(self, number: float) -> float:
        """Return the maximum over all ranks."""
        return self._sum(torch.tensor(number, dtype=torch.float64), dist.ReduceOp.MAX).item()

    def of_first(self, make: Callable[[], T]) -> T:
        """Call `make` on the first rank and broadcast its result."""
        made = [make() if self.is_first else None]
        with _together():
            dist.broadcast_object_list(made)
        return cast(T, made[0])

    def once_a_machine(self, read: Callable[[], T], folder: Path) -> T:
        """See `Ranks`. The first rank of each machine writes the arrays to a file, which the others map."""
        if self._local_rank:
            found: T = _mapped(*self._gather(None)[self.rank - self._local_rank])
            self.wait()
            return found
        content = read()
        path, descriptor = open_hidden(folder / f"{HANDED_ON}{self.rank}")
        try:
            with full_disk_told(f"a temporary file in {folder}"), os.fdopen(descriptor, "wb") as file:
                written = _write(content, file)
                del content
                self._gather((written, path))
                found = _mapped(written, path)
                self.wait()
        finally:
            path.unlink(missing_ok=True)
        return found

    def _sum(self, numbers: Tensor, operation: dist.ReduceOp.RedOpType = dist.ReduceOp.SUM) -> Tensor:
        """Reduce the numbers over all ranks, in place."""
        with _together():
            dist.all_reduce(numbers, operation)
        return numbers

    def _gather(self, value: Any) -> list[Any]:
        """Return the value of each rank."""
        found = [None] * self.number
        with _together():
            dist.all_gather_object(found, value)
        return found


@dataclass(frozen=True)
class _Place:
    """Position of an array in a file."""

    begin: int
    """In bytes."""
    dtype: np.dtype[Any]
    shape: tuple[int, ...]
    is_repeated: bool
    """Whether a single stored number is broadcast to the shape."""


def _write(content: T, file: BinaryIO) -> T:
    """Write the arrays in nested dataclasses and tuples; return a copy with their positions in their place."""

    def write(array: NDArray[Any]) -> _Place | NDArray[Any]:
        if not array.size:
            return array
        is_repeated = array.strides == (0,)
        begin = file.seek(-file.tell() % _ALIGNMENT, os.SEEK_CUR)
        file.write(np.ascontiguousarray(array[:1] if is_repeated else array).data)
        return _Place(begin, array.dtype, array.shape, is_repeated)

    written = with_each(np.ndarray, write, content)
    file.flush()
    return cast(T, written)


def _mapped(content: T, path: Path) -> T:
    """Return the argument of `_write` with memory-mapped arrays; the file may then be unlinked."""
    with path.open("rb") as file:
        # Copy on write: changes of one rank are invisible to the others.
        found = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_COPY)

    def array(place: _Place) -> NDArray[Any]:
        if place.is_repeated:
            return np.broadcast_to(np.frombuffer(found, place.dtype, 1, place.begin), place.shape)
        return np.frombuffer(found, place.dtype, math.prod(place.shape), place.begin).reshape(place.shape)

    return cast(T, with_each(_Place, array, content))


@contextmanager
def joined_group(address: str = "env://") -> Iterator[RankGroup]:
    """Join the group given by the environment variables or by an address; see `torchrun.joined`."""
    if "OMP_NUM_THREADS" not in os.environ:
        torch.set_num_threads(1)
    # Gloo exchanges CPU tensors, so that they do not wait for a GPU.
    backend = "cpu:gloo,cuda:nccl" if torch.cuda.is_available() else "gloo"
    try:
        store, rank, number = next(rendezvous(address))
        dist.init_process_group(backend, store=store, rank=rank, world_size=number, timeout=_LONGEST_WAIT)
        group = RankGroup(rank, number, int(os.environ.get("LOCAL_RANK") or "0"))
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
    """Raise the error on the first rank that fails, so that it is reported once; exit silently on the others.

    The store of the group counts the failures.
    """
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
