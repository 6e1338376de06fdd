"""The picture of the README: a line for each corpus, a dot for each system."""

from __future__ import annotations

from collections.abc import Mapping

from experiments.drawing import COLOURS, drawing, svg
from experiments.pages.results import Selection

_APART = 0.15
"""Of the distance between two corpora, how far the dots of one stand apart, for some are alike."""

_LETTER = 0.085
"""How wide a letter is, in inches, at most on average."""


def dot_plot(selection: Selection) -> bytes:
    """Return the one column of a selection as SVG."""
    [column] = selection.columns
    corpora = list(selection.tables)
    systems = list(dict.fromkeys(row for _, _, row in selection.lines()))
    left = _LETTER * max(map(len, corpora)) + 0.2
    with drawing(8, 0.55 * len(corpora) + 1.1, (left, 0.24, 0.42, 0.43)) as (figure, axes):
        for name, table, row in selection.lines():
            cell = table.rows[row].get(column)
            value = cell["mean"] if isinstance(cell, Mapping) else cell
            if value is not None:
                place = systems.index(row)
                height = corpora.index(name) + _APART * (place - (len(systems) - 1) / 2)
                axes.plot(float(value), height, "o", color=COLOURS[place % len(COLOURS)], markersize=7, zorder=3)
        for place, row in enumerate(systems):
            axes.plot([], [], "o", color=COLOURS[place % len(COLOURS)], label=row)
        axes.set_yticks(range(len(corpora)), corpora)
        axes.set_ylim(len(corpora) - 0.5, -0.5)
        axes.set_xlabel(column if "BLEU" in column else f"BLEU {column}")
        figure.legend(loc="upper center", ncols=len(systems), frameon=False, handletextpad=0.1, columnspacing=1.2)
        return svg(figure)
