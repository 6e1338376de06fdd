"""Figures of attention weights and gates by Matplotlib, which is imported on demand.

Legend: T target symbols (words and the end symbol) or symbols of a phrase, L source symbols (likewise), n hidden size.
"""

from __future__ import annotations

import io
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from phrasescore.errors import UserError, arg_name
from phrasescore.files import require_writable, write_atomically

if TYPE_CHECKING:
    from phrasescore.inspection import Gates

Numbers = NDArray[np.float32]
_INCHES_A_WORD, _INCHES_AROUND, _INCHES_OF_SCALE = 0.32, 1.8, 0.8


class Alignment(NamedTuple):
    """A sentence, its translation, and the attention weights."""

    source: Sequence[bytes]
    target: Sequence[bytes]
    attention_TL: Numbers


def draw_alignments(alignments: Sequence[Alignment], path: Path) -> None:
    """Plot alignments below each other, in the format of the path's suffix; see `write_figure`."""
    plt = load_pyplot("attention")
    heights = [_INCHES_AROUND + _INCHES_A_WORD * len(one.attention_TL) for one in alignments]
    width = _INCHES_OF_SCALE + _INCHES_AROUND + _INCHES_A_WORD * max(one.attention_TL.shape[1] for one in alignments)
    figure, axes = plt.subplots(
        len(alignments), 1, figsize=(width, sum(heights)), height_ratios=heights, squeeze=False, layout="compressed"
    )
    for axis, one in zip(axes[:, 0], alignments, strict=True):
        image = axis.imshow(one.attention_TL, cmap="Greys", vmin=0, vmax=1, interpolation="nearest")
        axis.set_xticks(range(one.attention_TL.shape[1]), _labels([*one.source, b"<eos>"]), rotation=90)
        axis.set_yticks(range(one.attention_TL.shape[0]), _labels([*one.target, b"<eos>"]))
        axis.xaxis.tick_top()
        axis.grid(visible=False)
    figure.suptitle("attention: target word by source word")
    figure.colorbar(image, ax=axes[:, 0], label="attention weight", aspect=10 * len(alignments))
    write_figure(figure, path)


def sorted_units(gate_Tn: Numbers) -> Numbers:
    """Sort the units of a gate by their mean; their own order has no meaning."""
    return gate_Tn[:, np.argsort(gate_Tn.mean(axis=0), kind="stable")]


def draw_gates(gates: Gates, path: Path) -> None:
    """Plot both gates of all units, in the format of the path's suffix; see `write_figure`."""
    plt = load_pyplot("gates")
    symbols = _labels(gates.symbols)
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


def _labels(words: Sequence[bytes]) -> list[str]:
    return [as_label(word.decode("utf-8", "replace")) for word in words]


def as_label(text: str) -> str:
    """Escape dollar signs, between which Matplotlib expects a formula."""
    return text.replace("$", r"\$")


def load_pyplot(option: str) -> Any:
    """Return Matplotlib's pyplot with a backend for files; `option` names the request in messages."""
    try:
        import matplotlib as mpl
    except ImportError as error:
        raise UserError(f"{arg_name(option)}: needs Matplotlib; pip install matplotlib") from error
    mpl.use("Agg")
    from matplotlib import pyplot as plt

    return plt


def check_picture(option: str, path: Path) -> None:
    """Check before a long computation that its figure can be written; `option` names the request in messages."""
    load_pyplot(option)
    _format_of(path)
    require_writable(path)


def write_figure(figure: Any, path: Path) -> None:
    """Write a figure in the format of the path's suffix, and close it."""
    from matplotlib import pyplot as plt

    picture = io.BytesIO()
    try:
        figure.savefig(picture, dpi=150, format=_format_of(path))
    finally:
        plt.close(figure)
    write_atomically(path, picture.getvalue())


def _format_of(path: Path) -> str:
    from matplotlib.backend_bases import FigureCanvasBase

    found = path.suffix.removeprefix(".") or "png"
    if found not in FigureCanvasBase.get_supported_filetypes():
        raise UserError(f"{path}: is not an image format of Matplotlib; give a name that ends in .png, .svg or .pdf")
    return found
