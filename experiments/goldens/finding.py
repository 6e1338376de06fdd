"""What a check found: a figure, the target it is held against, and whether it holds."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True)
class Finding:
    """One figure."""

    what: str
    figure: str
    target: str = ""
    holds: bool | None = None
    """None for a figure without a target."""

    @property
    def verdict(self) -> str:
        """Return `yes`, `NO`, or nothing without a target."""
        return "" if self.holds is None else "yes" if self.holds else "NO"


def as_table(findings: Iterable[Finding]) -> str:
    """Return a Markdown table."""
    rows = [f"| {one.what} | {one.figure} | {one.target} | {one.verdict} |" for one in findings]
    return "\n".join(["| what | figure | target | holds |", "|---|---|---|---|", *rows]) + "\n"
