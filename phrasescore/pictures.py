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
    from matplotlib.backend_bases import FigureCanvasBase

    if _format(path) not in FigureCanvasBase.get_supported_filetypes():
        raise _unknown_format(path)
    require_writable(path)


def write_figure(figure: Any, path: Path) -> None:
    """Write a figure in the format of the path's suffix, and close it.

    Raises:
        UserError: Matplotlib does not know the suffix, or the file cannot be written.
    """
    from matplotlib import pyplot as plt

    picture = io.BytesIO()
    try:
        figure.savefig(picture, dpi=150, format=_format(path))
    except ValueError as error:
        raise _unknown_format(path) from error
    finally:
        plt.close(figure)
    write_atomically(path, picture.getvalue())


def _format(path: Path) -> str:
    return path.suffix.removeprefix(".") or "png"


def _unknown_format(path: Path) -> UserError:
    return UserError(f"{path}: is no picture Matplotlib can write; end its name in .png, .svg or .pdf")
