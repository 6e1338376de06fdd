"""What stands in a picture."""

from __future__ import annotations

import html
import re
from pathlib import Path


def labels(svg: Path) -> list[str]:
    """The titles and the words at the axes, in their order; Matplotlib draws them, and names them in comments."""
    found = re.findall(r"<!-- (.*?) -->", svg.read_text())
    return [html.unescape(label) for label in found if not re.fullmatch(r"[\d.]+", label)]
