"""PyTorch's `meta` device has no values, so code that would wait for a GPU fails on it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from typing import Any
from unittest.mock import patch

import torch
from torch.utils._python_dispatch import TorchDispatchMode

META = torch.device("meta")
_READS = {f"aten::{name}" for name in ("_local_scalar_dense", "nonzero", "masked_select", "equal", "_unique2")}


class Copies(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Counts the copies to the device."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.number = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        found = func(*args, **(kwargs or {}))
        if isinstance(found, torch.Tensor) and found.device == META:
            self.number += any(isinstance(arg, torch.Tensor) and arg.device != META for arg in args)
        return found


class Reads(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Lists operations that read tensor values, on the CPU."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.names: list[str] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func._schema.name in _READS:
            self.names.append(func._schema.name)
        return func(*args, **(kwargs or {}))


@contextmanager
def copies() -> Iterator[Copies]:
    """Yield a counter of copies to the device, which has no 16-bit mode to configure."""
    with patch("torch.autocast", lambda *args, **kwargs: nullcontext()), Copies() as counted:
        yield counted
