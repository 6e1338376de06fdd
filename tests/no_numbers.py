"""A device without numbers, PyTorch's `meta`: who asks it for a number, where a GPU would be waited for, fails."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from typing import Any
from unittest.mock import patch

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from phrasescore.device import Device

META = torch.device("meta")
DEVICE = Device(META, None)


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


@contextmanager
def copies() -> Iterator[Copies]:
    """Yield what counts the copies to the device, which has no 16-bit mode to switch on or off."""
    with patch("torch.autocast", lambda *args, **kwargs: nullcontext()), Copies() as counted:
        yield counted
