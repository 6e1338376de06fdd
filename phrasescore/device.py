"""Device and precision of computations, and asynchronous transfer of tensors between CPU and device."""

from __future__ import annotations

import contextlib
import ctypes
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, fields, is_dataclass, replace
from typing import Any, Literal, TypeVar, get_args

import numpy as np
import torch
from torch import Tensor

from phrasescore.errors import UserError, arg_name
from phrasescore.nn.cpu_products import Int8Products, bf16_products, has_fast_bf16, has_int8
from phrasescore.phrases import offsets_of
from phrasescore.workers import available_cores, process_number

Precision = Literal["auto", "fp32", "bf16", "int8"]

_ANY_GPU = torch.device("cuda")
_M_TRIM_THRESHOLD, _M_MMAP_MAX, _M_ARENA_MAX = -1, -4, -8
_KERNEL_CACHES = ("ONEDNN_PRIMITIVE_CACHE_CAPACITY", "LRU_CACHE_CAPACITY")
_KERNELS = 256


@dataclass(frozen=True)
class Device:
    """A device and the data type of its matrix products."""

    torch_device: torch.device
    product_dtype: torch.dtype | None
    """bfloat16, or None for the data type of the weights. If the device quantises, it is that of the softmax alone:
    bfloat16 where it is fast, else int8."""
    quantises: bool = False
    """Whether linear layers multiply 8-bit integers."""

    @property
    def precision(self) -> Literal["int8", "bf16", "fp32"]:
        """`int8`, `bf16` or `fp32`, for reports."""
        if self.quantises:
            return "int8"
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
        """Return a context in which products have the precision of the device; states and sums stay in 32 bit."""
        if self.quantises:
            return Int8Products()
        if self.product_dtype is not None and self.torch_device.type == "cpu":
            return bf16_products()
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
    """Return a device; `auto` selects a GPU if there is one, and 16-bit products where the hardware speeds them up."""
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
        raise UserError(f"device `{name}`: is not available ({found} GPUs found); give cpu or auto")
    # Python callers can pass any string.
    if precision not in get_args(Precision):
        raise UserError(f"precision `{precision}`: there is none of this name; give {', '.join(get_args(Precision))}")
    fast = torch.cuda.is_bf16_supported(including_emulation=False) if device.type == "cuda" else has_fast_bf16()
    if precision == "int8":
        _require_int8(device)
        return Device(device, torch.bfloat16 if fast else torch.int8, quantises=True)
    use_bf16 = fast if precision == "auto" else precision == "bf16"
    return Device(device, torch.bfloat16 if use_bf16 else None)


def _require_int8(device: torch.device) -> None:
    if device.type != "cpu":
        raise UserError(f"precision `int8`: is for CPUs, not for {device}; give bf16 or {arg_name('device', 'cpu')}")
    if not has_int8():
        raise UserError(
            "precision `int8`: needs the instructions AVX512-VNNI or AVX-VNNI and a PyTorch with oneDNN; give fp32"
        )


def configure_memory() -> None:
    """Keep freed memory in the process (on Linux), and limit the kernel caches of PyTorch and oneDNN.

    Each step frees and allocates the same hundreds of megabytes, and zeroed pages from the system take time. Products
    of attention have ever new shapes: after some millions of lines a process had 0.6 GB of kernels. Those of linear
    layers fit in a smaller cache (see `rounded_rows`). Its size is read at the first product.
    """
    for cache in _KERNEL_CACHES:
        os.environ.setdefault(cache, str(_KERNELS))
    if sys.platform == "linux":
        with contextlib.suppress(AttributeError, OSError):
            libc = ctypes.CDLL(None)
            libc.mallopt(_M_MMAP_MAX, 0)
            libc.mallopt(_M_TRIM_THRESHOLD, -1)
            # Threads share one heap, because additional heaps return freed memory to the system immediately.
            libc.mallopt(_M_ARENA_MAX, 1)


T = TypeVar("T")

_ALIGNMENT = 64


def on_device(content: T, device: torch.device) -> T:
    """Return dataclasses, tuples, lists and dictionaries with all tensors on a device.

    CPU tensors are transferred in one copy from pinned memory. Many small copies take longer than their content, and a
    copy from pageable memory waits for all pending work of the device.
    """
    if device.type == "cpu":
        return content
    tensors: list[Tensor] = []
    with_each(Tensor, lambda tensor: tensors.append(tensor) if _is_here(tensor) else None, content)
    if not tensors:
        return content
    moved = iter(unpack(pack(tensors).to(device, non_blocking=True), tensors))
    found: T = with_each(Tensor, lambda tensor: next(moved) if _is_here(tensor) else tensor, content)
    return found


def pack(tensors: Sequence[Tensor]) -> Tensor:
    """Concatenate the bytes of CPU tensors, in pinned memory if there is a GPU."""
    places = _places(tensors)
    packed = torch.empty(places[-1].stop, dtype=torch.uint8, pin_memory=torch.cuda.is_available())
    for place, tensor in zip(places, tensors, strict=True):
        # In this order, because the strides of a single row may not allow a view of another type.
        packed[place].view(tensor.dtype).copy_(tensor.reshape(-1))
    return packed


def unpack(packed: Tensor, like: Sequence[Tensor]) -> list[Tensor]:
    """Split concatenated bytes into tensors with the types and shapes of `like`."""
    return [packed[place].view(t.dtype).view(t.shape) for place, t in zip(_places(like), like, strict=True)]


def _places(tensors: Sequence[Tensor]) -> list[slice]:
    begins = offsets_of(np.array([-(-tensor.nbytes // _ALIGNMENT) * _ALIGNMENT for tensor in tensors])).tolist()
    return [slice(begin, begin + tensor.nbytes) for begin, tensor in zip(begins, tensors, strict=False)]


def _is_here(tensor: Tensor) -> bool:
    return tensor.device.type == "cpu"


def fetch(tensor: Tensor) -> Callable[[], Tensor]:
    """Start to copy a tensor to the CPU; return a function that waits for the copy, but not for work queued later."""
    if _is_here(tensor):
        return lambda: tensor
    copy = tensor.to("cpu", non_blocking=True)
    is_there = torch.cuda.Event()  # type: ignore[no-untyped-call]
    is_there.record(torch.cuda.current_stream(tensor.device))

    def wait() -> Tensor:
        is_there.synchronize()
        return copy

    return wait


def with_each(kind: type[Any], change: Callable[[Any], Any], value: Any) -> Any:
    """Apply a function to all instances of a type in nested dataclasses, tuples, lists and dictionaries, in order."""
    if isinstance(value, kind):
        return change(value)
    if type(value) in (tuple, list):
        return type(value)(with_each(kind, change, part) for part in value)
    if type(value) is dict:
        return {key: with_each(kind, change, part) for key, part in value.items()}
    if is_dataclass(value) and not isinstance(value, type):
        parts = {item.name: getattr(value, item.name) for item in fields(value)}
        return replace(value, **{name: with_each(kind, change, part) for name, part in parts.items()})
    return value
