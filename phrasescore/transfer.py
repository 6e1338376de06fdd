"""Asynchronous transfer of tensors between CPU and device."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import fields, is_dataclass, replace
from typing import Any, TypeVar

import numpy as np
import torch
from torch import Tensor

from phrasescore.phrases import offsets_of

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
    """Start to copy a tensor to the CPU; return a function that waits for the copy.

    It waits for work queued before this call, not for work queued later.
    """
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
