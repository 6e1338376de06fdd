"""The reports of other experiments, which are a report.md with pictures beside it, as a part of the page."""

from __future__ import annotations

import base64
from pathlib import Path

from markdown_it import MarkdownIt
from markdown_it.token import Token
from markupsafe import Markup

from phrasescore.errors import UserError
from phrasescore.files import read_bytes

_DEEPER = 2
"""How much deeper a report's headings stand on the page."""


def embedded(folder: Path) -> Markup:
    """Return a report with its pictures inside; tables stand in boxes of their own.

    Raises:
        UserError: the folder has no report.md, or a picture is missing.
    """
    reader = MarkdownIt("commonmark", {"html": False, "xhtmlOut": False}).enable("table")
    tokens = reader.parse(read_bytes(folder / "report.md").decode("utf-8", "replace"))
    for token in tokens:
        if token.type.startswith("heading"):
            token.tag = f"h{min(int(token.tag[1]) + _DEEPER, 6)}"
        for child in token.children or []:
            if child.type == "image":
                path = folder / str(child.attrs["src"])
                child.attrs["src"] = _picture(path)
                child.children = child.children or [Token("text", "", 0, content=path.stem)]
    shown = reader.renderer.render(tokens, reader.options, {})
    shown = shown.replace("<table>", '<div class="scroll" tabindex="0"><table>').replace("</table>", "</table></div>")
    # The cells of these tables have this one tag, which a reader of Markdown without HTML shows as text.
    return Markup(shown.replace("&lt;br&gt;", "<br>"))


def _picture(path: Path) -> str:
    """Return a drawing as an address."""
    if path.suffix != ".svg":
        raise UserError(f"{path}: is no SVG; make the report again")
    return f"data:image/svg+xml;base64,{base64.b64encode(read_bytes(path)).decode()}"
