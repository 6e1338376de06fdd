"""The charts of the page, as SVG that stands inside it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from markupsafe import Markup
from matplotlib.figure import Figure

from experiments.drawing import COLOURS, INK, drawing, svg

_WIDTH = 5.0
"""Inches, at most, of all charts: beside each other on a wide page, and none too wide for a phone."""


@dataclass(frozen=True)
class Line:
    """Points that a line joins."""

    name: str
    points: Sequence[tuple[float, float]]
    colour: int
    dashed: bool = False


@dataclass(frozen=True)
class Dots:
    """A row: a value for each seed, and their mean."""

    name: str
    values: Sequence[float]
    mean: float
    deviation: float | None


def row_chart(unit: str, rows: Sequence[Dots]) -> Markup:
    """Return a line for each row: its seeds, their mean and standard deviation. The mean of the first goes through."""
    longest = max(len(row.name) for row in rows)
    with drawing(_WIDTH, 0.32 * len(rows) + 0.6, (0.2 + 0.1 * longest, 0.15, 0.45, 0.1)) as (figure, axes):
        axes.axvline(rows[0].mean, color=INK, linewidth=1, linestyle=":")
        for place, row in enumerate(rows):
            colour = COLOURS[min(place, 1)]
            axes.errorbar(row.mean, place, xerr=row.deviation, fmt="|", color=colour, markersize=12, capsize=3)
            axes.plot(row.values, [place] * len(row.values), "o", color=colour, markersize=4)
        axes.set_yticks(range(len(rows)), [row.name for row in rows])
        axes.set_ylim(len(rows) - 0.5, -0.5)
        axes.set_xlabel(unit)
        said = "; ".join(f"{row.name} {row.mean:.2f}" for row in rows)
        return _inside(figure, f"{unit}: {said}")


def line_chart(
    title: str, labels: tuple[str, str], lines: Sequence[Line], kept: tuple[float, float] | None = None
) -> Markup:
    """Return lines over an axis, with a ring around the point that was kept.

    Args:
        title: above.
        labels: of both axes.
        lines: at least one.
        kept: the point.
    """
    with drawing(_WIDTH, 3, (0.6, 0.15, 0.5, 0.35)) as (figure, axes):
        for line in lines:
            style = "--" if line.dashed else "-"
            axes.plot(
                *zip(*line.points, strict=True),
                style,
                marker=".",
                color=COLOURS[line.colour % len(COLOURS)],
                linewidth=1 if line.dashed else 1.6,
                label=line.name,
            )
        if kept is not None:
            axes.plot(*kept, "o", color=INK, fillstyle="none", markersize=10)
            axes.annotate(f"kept: {kept[1]:.2f}", kept, xytext=(0, 9), textcoords="offset points", ha="center")
        axes.ticklabel_format(useOffset=False)
        axes.set_title(title, loc="left", fontsize=10, fontweight="bold")
        axes.set_xlabel(labels[0])
        axes.set_ylabel(labels[1])
        if len({line.name for line in lines}) > 1:
            axes.legend(frameon=False, fontsize=9)
        ends = ", ".join(f"{line.name} ends at {line.points[-1][1]:.2f}" for line in lines)
        return _inside(figure, f"{title}, {labels[1]}: {ends}")


def _inside(figure: Figure, description: str) -> Markup:
    """Return a figure as a part of a page; the description is for those who cannot see it."""
    drawn = svg(figure).decode()
    opening = Markup('<svg role="img" aria-label="{}" class="chart"').format(description)
    return Markup(drawn[drawn.index("<svg") :]).replace("<svg", opening, 1)
