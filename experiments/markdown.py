"""Tables for people to read."""

from __future__ import annotations

from collections.abc import Iterable, Sequence


def as_markdown(head: Sequence[str], body: Iterable[Sequence[str]]) -> str:
    """Return a table."""
    rows = [head, ["---"] * len(head), *([cell.replace("|", r"\|") for cell in row] for row in body)]
    return "".join(f"| {' | '.join(row)} |\n" for row in rows)
