"""How large a network is, known before it takes any memory."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, TypeVar

import torch
from torch import nn
from torch.overrides import TorchFunctionMode

from phrasescore.errors import UserError

NetworkT = TypeVar("NetworkT", bound=nn.Module)

MOST_PARAMETERS = 1 << 31
"""The most parameters of a network: 8 GiB in 32 bits."""


class _NothingDrawn(TorchFunctionMode):
    """Draws no weights, which tensors without numbers do not hold: PyTorch would import its compiler for that."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if getattr(func, "__name__", "") == "normal_":
            return args[0] if args else kwargs["tensor"]
        return func(*args, **kwargs)


def without_numbers(build: Callable[[], NetworkT]) -> NetworkT:
    """Return a network that has shapes only and takes no memory for numbers."""
    with torch.device("meta"), _NothingDrawn():
        return build()


def check_size(build: Callable[[], nn.Module]) -> dict[str, tuple[int, ...]]:
    """Return the shape of each tensor of a network by its name, checked to be of a size that can be meant.

    Args:
        build: makes the network.

    Raises:
        UserError: the network is too large, or see `build`.
    """
    try:
        network = without_numbers(build)
    except RuntimeError:
        # What a plugin does may need numbers: only the real network tells then.
        network = build()
    shapes = {name: tuple(tensor.shape) for name, tensor in network.state_dict().items()}
    parameters = sum(math.prod(shape) for shape in shapes.values())
    if parameters > MOST_PARAMETERS:
        raise UserError(
            f"the network would have {parameters:,} parameters, more than {MOST_PARAMETERS:,}; give smaller sizes"
        )
    return shapes
