"""Format Markdown tables."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any


def as_markdown(head: Sequence[str], body: Iterable[Sequence[str]]) -> str:
    """Return a Markdown table."""
    rows = [head, ["---"] * len(head), *([cell.replace("|", r"\|") for cell in row] for row in body)]
    return "".join(f"| {' | '.join(row)} |\n" for row in rows)


def figures(value: Any, name: str = "") -> Iterator[tuple[str, str]]:
    """Flatten nested dictionaries: yield the joined keys and the formatted value of each figure; skip None."""
    if isinstance(value, dict):
        for key, part in value.items():
            yield from figures(part, f"{name}, {key.replace('_', ' ')}".removeprefix(", "))
    elif isinstance(value, float):
        yield name, f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.3g}"
    elif value is not None:
        yield name, f"{value:,}" if isinstance(value, int) else str(value)
