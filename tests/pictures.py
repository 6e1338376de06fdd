"""Read the text of saved pictures."""

from __future__ import annotations

import html
import re
from pathlib import Path


def labels(svg: Path) -> list[str]:
    """Return the titles and axis labels in order; Matplotlib draws them as paths and names them in comments."""
    found = re.findall(r"<!-- (.*?) -->", svg.read_text())
    return [html.unescape(label) for label in found if not re.fullmatch(r"[\d.]+", label)]
