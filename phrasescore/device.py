"""Device and precision of computations."""

from __future__ import annotations

import contextlib
import ctypes
import os
import sys
from collections.abc import Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from typing import Literal, get_args

import torch

from phrasescore.errors import UserError
from phrasescore.workers import available_cores, process_number

Precision = Literal["auto", "fp32", "bf16"]

_ANY_GPU = torch.device("cuda")
_M_TRIM_THRESHOLD, _M_MMAP_MAX, _M_ARENA_MAX = -1, -4, -8
_PROGRAM_CACHES = ("ONEDNN_PRIMITIVE_CACHE_CAPACITY", "LRU_CACHE_CAPACITY")
_PROGRAMS = 64


@dataclass(frozen=True)
class Device:
    """A device and the data type of its matrix products."""

    torch_device: torch.device
    product_dtype: torch.dtype | None
    """bfloat16, or None for the data type of the weights."""

    @property
    def precision(self) -> Literal["bf16", "fp32"]:
        """`bf16` or `fp32`, for reports."""
        return "bf16" if self.product_dtype is torch.bfloat16 else "fp32"

    def __str__(self) -> str:
        return f"{self.torch_device} {self.precision}"

    def processes(self, asked: int | None) -> int:
        """Return the requested number of processes, or by default one per core or GPU of the device."""
        if asked is not None:
            return asked
        if self.torch_device.type == "cpu":
            return available_cores()
        return torch.cuda.device_count() if self.torch_device == _ANY_GPU else 1

    def of_this_process(self) -> Device:
        """Return the GPU of this worker process; `cuda` without an index assigns GPUs to workers in turn."""
        number = process_number()
        if self.torch_device != _ANY_GPU or number is None:
            return self
        return replace(self, torch_device=torch.device("cuda", number % torch.cuda.device_count()))

    def products(self) -> AbstractContextManager[object]:
        """Return a context in which matrix products have the precision of the device.

        States, losses and sums of the softmax stay in 32 bit.
        """
        return torch.autocast(self.torch_device.type, torch.bfloat16, enabled=self.product_dtype is not None)


@contextlib.contextmanager
def one_thread() -> Iterator[None]:
    """Compute with one thread: each worker has one core, and sums of several threads may differ in the last digit."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def choose_device(name: str, precision: Precision) -> Device:
    """Return the device `auto`, `cpu`, `cuda` or `cuda:N` with the requested precision.

    `auto` selects a GPU if there is one, and 16-bit products where the hardware accelerates them.
    """
    if name == "auto":
        name = "cuda" if torch.cuda.is_available() else "cpu"
    try:
        device = torch.device(name)
    except RuntimeError as error:
        raise UserError(f"device `{name}`: there is none of this name; give auto, cpu, cuda or cuda:N") from error
    if device.type not in ("cpu", "cuda"):
        raise UserError(f"device `{name}`: is of a kind that is not supported; give auto, cpu, cuda or cuda:N")
    if device.type == "cuda" and (device.index or 0) >= torch.cuda.device_count():
        found = torch.cuda.device_count()
        raise UserError(f"device `{name}`: is not here ({found} GPUs found); give cpu or auto")
    # Python callers can pass any string.
    if precision not in get_args(Precision):
        raise UserError(f"precision `{precision}`: there is none of this name; give {', '.join(get_args(Precision))}")
    fast = torch.cuda.is_bf16_supported(including_emulation=False) if device.type == "cuda" else _cpu_has_bf16()
    use_bf16 = fast if precision == "auto" else precision == "bf16"
    return Device(device, torch.bfloat16 if use_bf16 else None)


def _cpu_has_bf16() -> bool:
    """Return whether this CPU multiplies 16-bit matrices faster than 32-bit ones (AVX512-BF16 or AMX)."""
    cpu = torch.cpu
    return bool(cpu._is_amx_tile_supported() or cpu._is_avx512_bf16_supported())


def settle_memory() -> None:
    """Keep freed memory in the process, and limit the kernel caches of PyTorch and oneDNN.

    Each step frees and allocates the same hundreds of megabytes. Getting zeroed pages from the system each time costs
    training time. This applies to Linux only.

    PyTorch and oneDNN each cache a thousand kernels, and in 16 bit the matrix sizes of every chunk are new: after some
    millions of lines a process had 0.6 GB of kernels. A smaller cache is as fast. Both read its size at the first
    product.
    """
    for cache in _PROGRAM_CACHES:
        os.environ.setdefault(cache, str(_PROGRAMS))
    if sys.platform == "linux":
        with contextlib.suppress(AttributeError, OSError):
            libc = ctypes.CDLL(None)
            libc.mallopt(_M_MMAP_MAX, 0)
            libc.mallopt(_M_TRIM_THRESHOLD, -1)
            # Threads share one heap, because additional heaps return freed memory to the system immediately.
            libc.mallopt(_M_ARENA_MAX, 1)
