"""Tensors on their way to a device and back, so that neither this process nor the device waits for the other."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import numpy as np
import torch
from torch import Tensor

from phrasescore.phrases import offsets_of
from phrasescore.structures import with_each

T = TypeVar("T")

_ALIGNMENT = 64


def on_device(content: T, device: torch.device) -> T:
    """Return dataclasses, tuples, lists and dictionaries with all tensors on a device.

    Those that come from the CPU go in one copy, out of pinned memory: many small ones take longer than what they bring,
    and out of other memory a copy waits for all that the device has yet to do.
    """
    if device.type == "cpu":
        return content
    tensors: list[Tensor] = []
    with_each(Tensor, lambda tensor: tensors.append(tensor) if tensor.device.type == "cpu" else None, content)
    if not tensors:
        return content
    begins = offsets_of(np.array([-(-tensor.nbytes // _ALIGNMENT) * _ALIGNMENT for tensor in tensors])).tolist()
    packed = torch.empty(begins[-1], dtype=torch.uint8, pin_memory=torch.cuda.is_available())
    places = [slice(begin, begin + tensor.nbytes) for begin, tensor in zip(begins, tensors, strict=False)]
    for place, tensor in zip(places, tensors, strict=True):
        packed[place].copy_(tensor.reshape(-1).view(torch.uint8))
    moved = packed.to(device, non_blocking=True)
    parts = iter(
        [moved[place].view(tensor.dtype).view(tensor.shape) for place, tensor in zip(places, tensors, strict=True)]
    )
    found: T = with_each(Tensor, lambda tensor: next(parts) if tensor.device.type == "cpu" else tensor, content)
    return found


def fetch(tensor: Tensor) -> Callable[[], Tensor]:
    """Begin to copy a tensor to the CPU; return what waits until it is there.

    It waits for what the device was asked for until now, not for what it is asked for in the meantime.
    """
    if not tensor.is_cuda:
        return lambda: tensor
    copy, is_there = tensor.to("cpu", non_blocking=True), torch.cuda.Event()
    is_there.record(torch.cuda.current_stream(tensor.device))

    def wait() -> Tensor:
        is_there.synchronize()
        return copy

    return wait
