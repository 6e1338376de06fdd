"""Draw SVG plots that are small, reproducible, and legible on light and dark pages."""

from __future__ import annotations

import io
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Literal

import matplotlib

matplotlib.use("svg")
from matplotlib.axes import Axes
from matplotlib.backends.backend_svg import FigureCanvasSVG
from matplotlib.figure import Figure

INK = "#77808a"
"""Legible on white and black, because the background is unknown."""
COLOURS = ("#8a929a", "#d1780f", "#2b8cd6", "#8a63d2", "#2e9e5b", "#d64550")
_SPREAD = 0.15
"""Vertical distance of the dots of one corpus, of the distance of two corpora: their figures may coincide."""
_LETTER = 0.085
"""Width of a letter in inches: an upper bound on the average."""
_STYLE = {
    # Keep text as text, and make the file reproducible.
    "svg.fonttype": "none",
    "svg.hashsalt": "phrasescore",
    "font.family": "sans-serif",
    "font.size": 10,
    **dict.fromkeys(("text.color", "axes.labelcolor", "xtick.color", "ytick.color", "axes.edgecolor"), INK),
}


@contextmanager
def blank(width: float, height: float, layout: Literal["constrained"] | None = None) -> Iterator[Figure]:
    """Yield a figure without axes; sizes are in inches. Draw and save it inside the `with` block."""
    with matplotlib.rc_context(_STYLE):  # type: ignore[arg-type]
        figure = Figure(figsize=(width, height), layout=layout)
        FigureCanvasSVG(figure)
        yield figure


@contextmanager
def drawing(width: float, height: float, margins: tuple[float, float, float, float]) -> Iterator[tuple[Figure, Axes]]:
    """Yield a figure with one pair of axes, with a grid and without a frame.

    Args:
        width: in inches.
        height: in inches.
        margins: left, right, bottom and top, in inches.
    """
    left, right, bottom, top = margins
    with blank(width, height) as figure:
        place = (left / width, bottom / height, 1 - (left + right) / width, 1 - (bottom + top) / height)
        axes = figure.add_axes(place)
        axes.grid(color=INK, alpha=0.25, linewidth=0.8)
        axes.tick_params(length=0)
        axes.spines[:].set_visible(False)
        yield figure, axes


def dot_plot(label: str, figures: Mapping[str, Mapping[str, float]]) -> bytes:
    """Return an SVG with a line for each corpus and a dot for each system; its description has the values.

    Args:
        label: label of the axis.
        figures: values by corpus and system.
    """
    systems = list(dict.fromkeys(system for values in figures.values() for system in values))
    left = _LETTER * max(map(len, figures)) + 0.2
    with drawing(6, 0.55 * len(figures) + 1.1, (left, 0.24, 0.42, 0.43)) as (figure, axes):
        for number, system in enumerate(systems):
            offset = _SPREAD * (number - (len(systems) - 1) / 2)
            dots = [(values[system], line + offset) for line, values in enumerate(figures.values()) if system in values]
            colour = COLOURS[number % len(COLOURS)]
            axes.plot(*zip(*dots, strict=True), "o", color=colour, markersize=7, zorder=3, label=system)
        axes.set_yticks(range(len(figures)), list(figures))
        axes.set_ylim(len(figures) - 0.5, -0.5)
        axes.set_xlabel(label if "BLEU" in label else f"BLEU {label}")
        figure.legend(loc="upper center", ncols=len(systems), frameon=False, handletextpad=0.1, columnspacing=1.2)
        return svg(figure, json.dumps([label, figures]))


def line_plot(x_label: str, y_label: str, curves: Mapping[str, Sequence[tuple[float, float]]]) -> bytes:
    """Return an SVG with a curve through the points of each name; x is logarithmic."""
    with drawing(8, 4, (0.7, 0.3, 0.5, 0.45)) as (figure, axes):
        for number, (name, points) in enumerate(curves.items()):
            axes.plot(*zip(*points, strict=True), "o-", color=COLOURS[number % len(COLOURS)], markersize=5, label=name)
        axes.set_xscale("log")
        axes.set_xlabel(x_label)
        axes.set_ylabel(y_label)
        figure.legend(loc="upper center", ncols=len(curves), frameon=False, columnspacing=1.2)
        return svg(figure)


def svg(figure: Figure, description: str | None = None) -> bytes:
    """Return a figure as SVG without unused ids, which could clash if a page has several figures."""
    drawn = io.BytesIO()
    nothing = dict.fromkeys(("Creator", "Date", "Format", "Type"))
    figure.savefig(drawn, format="svg", transparent=True, metadata={**nothing, "Description": description})
    text = drawn.getvalue().decode()
    used = set(re.findall(r'(?:url\(|href=")#([^")]+)', text))
    return re.sub(r' id="([^"]*)"', lambda match: match.group() if match[1] in used else "", text).encode()


def shown(file: bytes) -> bytes:
    """Return the values of a plot, whose other content depends on the version of Matplotlib; any other file whole."""
    found = re.search(rb"<dc:description>(.*?)</dc:description>", file, re.DOTALL)
    return found[1] if found else file
