"""The pictures of the report."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import textalloc
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle
from numpy.typing import NDArray

from experiments.drawing import COLOURS, INK, blank, svg
from experiments.qualitative.maps import Points, Region
from phrasescore.files import write_atomically
from phrasescore.pictures import as_label

_LABELS = 30
"""Labels of a region at most."""


def save(figure: Figure, folder: Path, name: str) -> list[str]:
    """Write a figure and return the name of the file."""
    write_atomically(folder / f"{name}.svg", svg(figure))
    return [f"{name}.svg"]


def scatter(sample: pd.DataFrame, folder: Path) -> list[str]:
    """Draw the table's score against the network's (Figure 3), each pair a point, and where most of them are."""
    low = float(np.floor(sample["network"].quantile(0.002)))
    line = max(low, float(sample["table"].min()))
    with blank(7.2, 5.6, "constrained") as figure:
        axis = figure.subplots()
        dots = axis.scatter(
            sample["table"],
            sample["network"].clip(low, 0),
            s=9,
            c=sample["target_words"].clip(upper=7),
            cmap="viridis_r",
            linewidths=0,
            rasterized=True,
        )
        axis.plot([line, 0], [line, 0], color=INK, linewidth=0.8, linestyle="--", label="equal scores")
        axis.set_ylim(low - 0.5, 0.7)
        axis.set_xlabel("table: ln of the phrase translation probability")
        axis.set_ylabel("network: ln p(target | source), the lowest at the edge")
        axis.legend(loc="lower left", frameon=False)
        figure.colorbar(dots, label="target words (7: seven or more)")
        axis.set_title(f"{len(sample):,} random pairs of the table")
        return save(figure, folder, "scatter")


def noise(true: NDArray[np.float64], misaligned: NDArray[np.float64], threshold: float, folder: Path) -> list[str]:
    """Draw how the scores of true and of misaligned pairs are spread, and the threshold between them."""
    low = float(np.quantile(misaligned, 0.005))
    bins = np.linspace(low, 0, 60)
    with blank(7.2, 3.8, "constrained") as figure:
        axis = figure.subplots()
        for values, colour, name in ((misaligned, COLOURS[1], "misaligned"), (true, COLOURS[2], "of the table")):
            axis.hist(values.clip(low, 0), bins.tolist(), color=colour, alpha=0.6, label=name)
        axis.axvline(threshold, color=INK, linewidth=1, linestyle="--", label=f"threshold {threshold:.2f}")
        axis.set_xlabel("network: ln p per predicted symbol")
        axis.set_ylabel("pairs")
        axis.legend(loc="upper left", frameon=False)
        axis.set_title("True and misaligned pairs")
        return save(figure, folder, "noise")


def mapped(
    points_P2: Points, texts: Sequence[str], regions: Sequence[Region], title: str, folder: Path, name: str
) -> list[str]:
    """Draw a map with its regions in colour, and each region again, larger and with labels."""
    rows = max(1, -(-len(regions) // 2))
    with blank(16, 4.6 * rows) as figure:
        grid = figure.add_gridspec(
            rows, 3, width_ratios=(1.5, 1, 1), left=0.02, right=0.99, top=0.93, bottom=0.02, wspace=0.05, hspace=0.12
        )
        whole = figure.add_subplot(grid[:, 0], xticks=[], yticks=[])
        whole.scatter(points_P2[:, 0], points_P2[:, 1], s=4, color=COLOURS[0], linewidths=0, rasterized=True)
        whole.set_title(title, fontsize=13)
        whole.set_aspect("equal", adjustable="datalim")
        for number, region in enumerate(regions):
            colour = COLOURS[1 + number % (len(COLOURS) - 1)]
            inside = region.holds(points_P2)
            whole.scatter(points_P2[inside, 0], points_P2[inside, 1], s=7, color=colour, linewidths=0)
            corner = (region.x - region.half, region.y - region.half)
            whole.add_patch(
                Rectangle(corner, 2 * region.half, 2 * region.half, fill=False, edgecolor=colour, linewidth=1.6)
            )
            whole.annotate(
                str(number + 1), (region.x, region.y + region.half), xytext=(0, 3), textcoords="offset points",
                ha="center", color=colour, fontsize=13, fontweight="bold",
            )  # fmt: skip
            panel = figure.add_subplot(grid[number // 2, 1 + number % 2], xticks=[], yticks=[])
            panel.set_xlim(region.x - 1.15 * region.half, region.x + 1.15 * region.half)
            panel.set_ylim(region.y - 1.15 * region.half, region.y + 1.15 * region.half)
            panel.scatter(points_P2[inside, 0], points_P2[inside, 1], s=14, color=colour, linewidths=0, zorder=3)
            panel.set_title(str(number + 1), color=colour, fontsize=13, fontweight="bold", loc="left", pad=3)
            panel.spines[:].set(color=colour, linewidth=1.6)
            # The order of the points is that of their frequency: where room is short, the rarest go without a label.
            chosen = inside[:_LABELS]
            place_labels(panel, points_P2[chosen], [texts[i] for i in chosen], colour)
        return save(figure, folder, name)


def place_labels(axis: Any, points_P2: Points, texts: Sequence[str], colour: str) -> None:
    """Write labels beside points so that none hides another, with lines of a colour; what has no room is left out."""
    textalloc.allocate(
        axis,
        x=points_P2[:, 0],
        y=points_P2[:, 1],
        text_list=list(map(as_label, texts)),
        x_scatter=points_P2[:, 0],
        y_scatter=points_P2[:, 1],
        textsize=9.5,
        textcolor=INK,
        linecolor=colour,
        linewidth=0.5,
        draw_all=False,
        avoid_label_lines_overlap=True,
    )
