"""Labels beside points, so that none hides another."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from phrasescore.pictures import as_label

_DISTANCES = (6, 10, 15, 21, 28)
"""Points of the type size between a point and its label, from near to far."""
_DIRECTIONS = ((1, 0), (-1, 0), (0, 1), (0, -1), (0.8, 0.7), (-0.8, 0.7), (0.8, -0.7), (-0.8, -0.7))
_MARGIN = 2.0
_LINE_MARKS = 20


def place_labels(axis: Any, points_P2: NDArray[np.float64], texts: Sequence[str], size: float, colour: str) -> int:
    """Write a label beside each point, in the first free place near it, with a thin line to its point.

    A label without a free place is left out: fewer labels say more than unreadable ones.

    Args:
        axis: where; its limits and the size of its figure must be final.
        points_P2: the points, in the axis' units.
        texts: their labels.
        size: of the type.
        colour: of the lines.

    Returns:
        how many labels were written.
    """
    figure = axis.figure
    renderer = figure.canvas.get_renderer()
    dots_P2 = axis.transData.transform(points_P2)
    page = _Page(axis.get_window_extent(renderer), dots_P2, figure.dpi / 72)
    written = 0
    for dot, text in zip(dots_P2, map(as_label, texts), strict=True):
        probe = axis.text(0, 0, text, fontsize=size)
        extent = probe.get_window_extent(renderer)
        probe.remove()
        box = page.take(dot, extent.width, extent.height)
        if box is None:
            continue
        # In the axis' units, for a pixel of one file format is not that of another.
        point, centre = axis.transData.inverted().transform((dot, (box[:2] + box[2:]) / 2))
        axis.annotate(
            text,
            xy=point,
            xytext=centre,
            textcoords="data",
            fontsize=size,
            ha="center",
            va="center",
            arrowprops={"arrowstyle": "-", "linewidth": 0.5, "color": colour, "alpha": 0.6, "shrinkA": 0, "shrinkB": 2},
        )
        written += 1
    return written


class _Page:
    """What is taken of the room for labels; all in pixels, boxes as left, bottom, right, top."""

    def __init__(self, frame: Any, dots_P2: NDArray[np.float64], pixels: float) -> None:
        self._frame, self._pixels = frame, pixels
        self._marks = dots_P2
        """Points and places on lines, which no label may cover."""
        self._boxes = np.zeros((0, 4))

    def take(self, dot: NDArray[np.float64], width: float, height: float) -> NDArray[np.float64] | None:
        """Return the first free box near a point, which then is taken, or None."""
        half = np.array([width, height]) / 2 + _MARGIN
        for distance in _DISTANCES:
            for direction in _DIRECTIONS:
                centre = dot + np.array(direction) * (distance * self._pixels + half)
                box = np.concatenate((centre - half, centre + half))
                # The line goes to the centre of the label, and is seen as far as its edge.
                line = dot + np.linspace(0.05, 1, _LINE_MARKS)[:, None] * (centre - dot)
                line = line[~((line > box[:2]) & (line < box[2:])).all(axis=1)]
                if self._is_free(box, line):
                    self._boxes = np.vstack((self._boxes, box))
                    self._marks = np.vstack((self._marks, line))
                    return box
        return None

    def _is_free(self, box: NDArray[np.float64], line: NDArray[np.float64]) -> bool:
        frame = self._frame
        if box[0] < frame.x0 or box[1] < frame.y0 or box[2] > frame.x1 or box[3] > frame.y1:
            return False
        covers = ((self._marks > box[:2]) & (self._marks < box[2:])).all(axis=1).any()
        meets = ((self._boxes[:, :2] < box[2:]) & (self._boxes[:, 2:] > box[:2])).all(axis=1).any()
        crosses = ((line[:, None] > self._boxes[:, :2]) & (line[:, None] < self._boxes[:, 2:])).all(axis=2).any()
        return not (covers or meets or crosses)
