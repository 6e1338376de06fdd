"""Figures by Matplotlib, which is imported on demand."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

from phrasescore.errors import UserError
from phrasescore.files import require_writable, write_atomically


def load_pyplot(option: str) -> Any:
    """Return Matplotlib's pyplot with a backend for files; `option` names the request in messages.

    Raises:
        UserError: Matplotlib is not installed.
    """
    try:
        import matplotlib as mpl
    except ImportError as error:
        raise UserError(f"{option}: needs Matplotlib; pip install matplotlib") from error
    mpl.use("Agg")
    from matplotlib import pyplot as plt

    return plt


def check_picture(option: str, path: Path) -> None:
    """Check before a long computation that its figure can be written; `option` names the request in messages.

    Raises:
        UserError: Matplotlib is not installed or does not support the suffix, or the folder is not writable.
    """
    load_pyplot(option)
    _format_of(path)
    require_writable(path)


def as_label(text: str) -> str:
    """Escape dollar signs, between which Matplotlib expects a formula."""
    return text.replace("$", r"\$")


def write_figure(figure: Any, path: Path) -> None:
    """Write a figure in the format of the path's suffix, and close it.

    Raises:
        UserError: Matplotlib does not support the suffix, or the file is not writable.
    """
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
