"""Pictures by Matplotlib, which is loaded when one is asked for."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

from phrasescore.errors import UserError
from phrasescore.files import write_atomically


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


def write_figure(figure: Any, path: Path) -> None:
    """Write a figure in the format of the path's suffix, and close it.

    Raises:
        UserError: Matplotlib does not know the suffix, or the file cannot be written.
    """
    from matplotlib import pyplot as plt

    picture = io.BytesIO()
    try:
        figure.savefig(picture, dpi=150, format=path.suffix.removeprefix(".") or "png")
    except ValueError as error:
        raise UserError(f"{path}: is no picture Matplotlib can write; end its name in .png, .svg or .pdf") from error
    finally:
        plt.close(figure)
    write_atomically(path, picture.getvalue())
