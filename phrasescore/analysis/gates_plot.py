"""Plots of the gates of a phrase, in a terminal or as a file.

Legend: T symbols of the phrase, n hidden size, G groups of units.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
from rich.cells import cell_len
from rich.text import Text

from phrasescore.analysis.gates import Activations, Gates
from phrasescore.pictures import as_label, load_pyplot, write_figure

_BARS, _DIGITS = "▁▂▃▄▅▆▇█", "0123456789"
_LOW, _HIGH = (59, 76, 192), (221, 132, 82)
"""Colours of a gate at 0 and at 1."""


def as_text(gate_Tn: Activations, symbols: list[str], groups: int, *, colour: bool, unicode: bool) -> list[Text]:
    """Return a line for each symbol: the gate, averaged over groups of units, sorted by their mean.

    The value is a colour from blue (0) to orange (1); without colour the height of a block; without Unicode a digit.
    """
    width = max(map(cell_len, symbols))
    levels = _BARS if unicode else _DIGITS
    lines = []
    for symbol, row in zip(symbols, grouped(sorted_units(gate_Tn), groups), strict=True):
        line = Text(f"  {' ' * (width - cell_len(symbol))}{symbol}  ")
        for value in row.tolist():
            if colour:
                line.append(" ", style=f"on {_blend(value)}")
            else:
                line.append(levels[min(int(value * len(levels)), len(levels) - 1)])
        line.append(f"  {row.mean():.2f}")
        lines.append(line)
    return lines


def sorted_units(gate_Tn: Activations) -> Activations:
    """Sort the units by their mean; their own order has no meaning."""
    return gate_Tn[:, np.argsort(gate_Tn.mean(axis=0), kind="stable")]


def grouped(gate_Tn: Activations, groups: int) -> Activations:
    """Return the means over at most `groups` groups of neighbouring units of nearly equal size, [T, G]."""
    parts = np.array_split(gate_Tn, min(groups, gate_Tn.shape[1]), axis=1)
    return np.stack([part.mean(axis=1) for part in parts], axis=1)


def _blend(value: float) -> str:
    red, green, blue = (round(value * high + (1 - value) * low) for high, low in zip(_HIGH, _LOW, strict=True))
    return f"#{red:02x}{green:02x}{blue:02x}"


def draw(gates: Gates, path: Path) -> None:
    """Plot both gates of all units, in the format of the path's suffix; see `write_figure`."""
    plt = load_pyplot("--gates")
    symbols = [as_label(symbol.decode("utf-8", "replace")) for symbol in gates.symbols]
    figure, axes = plt.subplots(2, 1, figsize=(9, 1.8 + 0.6 * len(symbols)), layout="constrained")
    panels = (
        ("update gate z: near 1 the unit keeps its state", gates.update_Tn),
        ("reset gate r: near 0 the unit ignores its previous state", gates.reset_Tn),
    )
    for axis, (title, gate_Tn) in zip(axes, panels, strict=True):
        image = axis.imshow(
            sorted_units(gate_Tn), aspect="auto", interpolation="nearest", cmap="coolwarm", vmin=0, vmax=1
        )
        axis.set_yticks(range(len(symbols)), symbols, fontsize=12)
        axis.set_xlabel("units, sorted by their mean over the phrase")
        axis.set_title(title)
        axis.grid(visible=False)
    figure.colorbar(image, ax=axes, fraction=0.05)
    write_figure(figure, path)
