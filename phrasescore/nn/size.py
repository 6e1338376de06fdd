"""The size of a network, computed before its memory is allocated."""

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
"""Maximum parameters of a network: 8 GiB in 32 bits."""


class _NothingDrawn(TorchFunctionMode):
    """Skips `normal_`: on the meta device PyTorch would import its compiler for it."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if getattr(func, "__name__", "") == "normal_":
            return args[0] if args else kwargs["tensor"]
        return func(*args, **kwargs)


def without_numbers(build: Callable[[], NetworkT]) -> NetworkT:
    """Return a network of meta tensors, which have shapes but no data."""
    with torch.device("meta"), _NothingDrawn():
        return build()


def check_size(build: Callable[[], nn.Module]) -> dict[str, tuple[int, ...]]:
    """Return the shape of each tensor of a network by name.

    Raises:
        UserError: the network has more than `MOST_PARAMETERS`, or `build` fails.
    """
    try:
        network = without_numbers(build)
    except RuntimeError:
        # A unit of a plugin may need data; then only the real network gives the shapes.
        network = build()
    shapes = {name: tuple(tensor.shape) for name, tensor in network.state_dict().items()}
    parameters = sum(math.prod(shape) for shape in shapes.values())
    if parameters > MOST_PARAMETERS:
        raise UserError(
            f"the network would have {parameters:,} parameters, more than {MOST_PARAMETERS:,}; give smaller sizes"
        )
    return shapes
