"""A device without numbers, PyTorch's `meta`: who asks it for a number, where a GPU would be waited for, fails."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from typing import Any
from unittest.mock import patch

import torch
from torch.utils._python_dispatch import TorchDispatchMode

META = torch.device("meta")
_READS = {f"aten::{name}" for name in ("_local_scalar_dense", "nonzero", "masked_select", "equal", "_unique2")}


class Copies(TorchDispatchMode):
    """Counts the copies to the device."""

    def __init__(self) -> None:
        super().__init__()
        self.number = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        found = func(*args, **(kwargs or {}))
        if isinstance(found, torch.Tensor) and found.device == META:
            self.number += any(isinstance(arg, torch.Tensor) and arg.device != META for arg in args)
        return found


class Reads(TorchDispatchMode):
    """Lists what asks for numbers of tensors, here on the CPU."""

    def __init__(self) -> None:
        super().__init__()
        self.names: list[str] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func._schema.name in _READS:
            self.names.append(func._schema.name)
        return func(*args, **(kwargs or {}))


@contextmanager
def copies() -> Iterator[Copies]:
    """Yield what counts the copies to the device, which has no 16-bit mode to switch on or off."""
    with patch("torch.autocast", lambda *args, **kwargs: nullcontext()), Copies() as counted:
        yield counted
