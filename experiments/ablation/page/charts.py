"""The charts of the page, as inline SVG."""

from __future__ import annotations

from collections.abc import Mapping

import pandas as pd
from markupsafe import Markup
from matplotlib.figure import Figure

from experiments.ablation.summary import UNITS
from experiments.drawing import COLOURS, INK, drawing, svg
from experiments.steps import Json

_WIDTH = 5.0
"""Maximum width of charts in inches: several fit on a wide page, and one fits on a phone."""


def row_chart(unit: str, measure: str, rows: Mapping[str, Json]) -> Markup:
    """Plot the runs, mean and standard deviation of each row, with a reference line at the mean of the first row.

    Args:
        unit: label of the axis.
        measure: key of the values in the rows.
        rows: rows as in `summary.json`.
    """
    longest = max(map(len, rows))
    means = {name: row[measure]["mean"] for name, row in rows.items()}
    with drawing(_WIDTH, 0.32 * len(rows) + 0.6, (0.2 + 0.1 * longest, 0.15, 0.45, 0.1)) as (figure, axes):
        axes.axvline(next(iter(means.values())), color=INK, linewidth=1, linestyle=":")
        for place, (name, row) in enumerate(rows.items()):
            colour, deviation = COLOURS[min(place, 1)], row[measure]["standard_deviation"]
            axes.errorbar(means[name], place, xerr=deviation, fmt="|", color=colour, markersize=12, capsize=3)
            axes.plot([seed[measure] for seed in row["seeds"]], [place] * len(row["seeds"]), "o", color=colour, ms=4)
        axes.set_yticks(range(len(rows)), list(rows))
        axes.set_ylim(len(rows) - 0.5, -0.5)
        axes.set_xlabel(unit)
        return _inside(figure, f"{unit}: " + "; ".join(f"{name} {mean:.2f}" for name, mean in means.items()))


def learning_chart(name: str, network: Json) -> Markup:
    """Plot the losses of a network by update, with a ring around those of the saved weights."""
    evaluations, best = network["evaluations"], network["best"]["update"]
    losses = pd.json_normalize(evaluations).set_index("update")
    # For sentence networks, the teacher-forced loss is comparable with the loss of other networks.
    losses.columns = losses.columns.str.replace("teacher_forced_", "")
    unit = next((unit for unit in UNITS if any(column.endswith(f".per_{unit}") for column in losses)), UNITS[0])
    # The loss that selects the weights comes first.
    columns = {"training_loss": "training", f"validation.per_{unit}": "dev set", f"held_out.per_{unit}": "held out"}
    losses = losses.reindex(columns=list(columns)).rename(columns=columns).dropna(axis="columns", how="all")
    with drawing(_WIDTH, 3, (0.8, 0.3, 0.5, 0.35)) as (figure, axes):
        for colour, (what, values) in zip(COLOURS, losses.items(), strict=False):
            axes.plot(values.dropna(), ".-", color=colour, linewidth=1.6, label=what)
        for loss in losses.drop(columns="training", errors="ignore").loc[best].iloc[:1]:
            axes.plot(best, loss, "o", color=INK, fillstyle="none", markersize=10)
            axes.annotate(f"kept: {loss:.2f}", (best, loss), xytext=(0, 9), textcoords="offset points", ha="center")
        axes.ticklabel_format(useOffset=False)
        axes.set_title(name, loc="left", fontsize=10, fontweight="bold")
        axes.set_xlabel(f"updates, {evaluations[-1]['epoch']:.1f} epochs")
        axes.set_ylabel(f"nats per {unit}")
        if len(losses.columns) > 1:
            axes.legend(frameon=False, fontsize=9)
        ends = ", ".join(f"{what} ends at {loss:.2f}" for what, loss in losses.iloc[-1].items())
        return _inside(figure, f"{name}, nats per {unit}: {ends}")


def _inside(figure: Figure, description: str) -> Markup:
    """Return a figure as inline SVG with an accessible description."""
    drawn = svg(figure).decode()
    opening = Markup('<svg role="img" aria-label="{}" class="chart"').format(description)
    return Markup(drawn[drawn.index("<svg") :]).replace("<svg", opening, 1)
