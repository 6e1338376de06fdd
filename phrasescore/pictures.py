"""Pictures by Matplotlib, which is loaded when one is asked for."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

from phrasescore.errors import UserError
from phrasescore.files import require_writable, write_atomically


def load_pyplot(option: str) -> Any:
    """Return Matplotlib's pyplot, for files only; `option` is what asked for it.

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
    """Check that a picture can be written, before the work that it is to show; `option` is what asked for it.

    Raises:
        UserError: Matplotlib is not installed or does not know the path's suffix, or the folder cannot be written.
    """
    load_pyplot(option)
    _known_format(path)
    require_writable(path)


def as_label(text: str) -> str:
    """Return a text as Matplotlib is to be given it: what stands between dollar signs it takes for a formula."""
    return text.replace("$", r"\$")


def write_figure(figure: Any, path: Path) -> None:
    """Write a figure in the format of the path's suffix, and close it.

    Raises:
        UserError: Matplotlib does not know the suffix, or the file cannot be written.
    """
    from matplotlib import pyplot as plt

    picture = io.BytesIO()
    try:
        figure.savefig(picture, dpi=150, format=_known_format(path))
    finally:
        plt.close(figure)
    write_atomically(path, picture.getvalue())


def _known_format(path: Path) -> str:
    """Return the format of the path's suffix.

    Raises:
        UserError: Matplotlib does not know it.
    """
    from matplotlib.backend_bases import FigureCanvasBase

    found = path.suffix.removeprefix(".") or "png"
    if found not in FigureCanvasBase.get_supported_filetypes():
        raise UserError(f"{path}: is no picture Matplotlib can write; end its name in .png, .svg or .pdf")
    return found
