"""Count the rows that a network computes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from torch import Tensor


def count_rows(owner: object, name: str, monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Return a list that grows by the rows of the first tensor of each call of a method."""
    rows: list[int] = []
    method: Callable[..., Any] = getattr(owner, name)

    def counting(tensor: Tensor, *others: Tensor) -> Any:
        rows.append(len(tensor))
        return method(tensor, *others)

    monkeypatch.setattr(owner, name, counting)
    return rows
