"""The picture of the README: a row for each corpus, a dot for each system."""

from __future__ import annotations

import io
from collections.abc import Mapping

import matplotlib

matplotlib.use("svg")
from matplotlib.figure import Figure

from experiments.pages.markers import Selection

_INK = "#77808a"
"""Legible on white and on black: a picture in a page does not know the colours around it."""
_COLOURS = ("#8a929a", "#d1780f", "#2b8cd6", "#8a63d2", "#2e9e5b", "#d64550")
_APART = 0.15
"""Of the distance between two corpora, how far the dots of one stand apart."""
_STYLE = {
    # Text as text, and nothing in the file that changes from one run to the next.
    "svg.fonttype": "none",
    "svg.hashsalt": "phrasescore",
    "font.family": "sans-serif",
    "font.size": 10,
    **dict.fromkeys(("text.color", "axes.labelcolor", "xtick.color", "ytick.color", "axes.edgecolor"), _INK),
}


def dot_plot(selection: Selection) -> bytes:
    """Return the one column of a selection as SVG."""
    [column] = selection.columns
    corpora = list(selection.tables)
    systems = list(dict.fromkeys(row for _, _, row in selection.lines()))
    with matplotlib.rc_context(_STYLE):  # type: ignore[arg-type]
        figure = Figure(figsize=(8, 0.55 * len(corpora) + 1.1))
        axes = figure.add_axes((0.22, 0.42 / figure.get_figheight(), 0.75, 1 - 0.85 / figure.get_figheight()))
        for name, table, row in selection.lines():
            cell = table.rows[row].get(column)
            value = cell["mean"] if isinstance(cell, Mapping) else cell
            if value is None:
                continue
            place = systems.index(row)
            # Side by side where they are alike.
            height = corpora.index(name) + _APART * (place - (len(systems) - 1) / 2)
            axes.plot(float(value), height, "o", color=_COLOURS[place % len(_COLOURS)], markersize=7, zorder=3)
        for place, row in enumerate(systems):
            axes.plot([], [], "o", color=_COLOURS[place % len(_COLOURS)], label=row)
        axes.set_yticks(range(len(corpora)), corpora)
        axes.set_ylim(len(corpora) - 0.5, -0.5)
        axes.set_xlabel(column)
        axes.grid(axis="both", color=_INK, alpha=0.25, linewidth=0.8)
        axes.tick_params(length=0)
        for side in axes.spines.values():
            side.set_visible(False)
        figure.legend(loc="upper center", ncols=len(systems), frameon=False, handletextpad=0.1, columnspacing=1.2)
        drawn = io.BytesIO()
        figure.savefig(drawn, format="svg", transparent=True, metadata={"Date": None, "Creator": None})
    return drawn.getvalue()
