"""The reports of other experiments, which are a report.md with pictures beside it, as a part of the page."""

from __future__ import annotations

import base64
import os
import re
import struct
from collections.abc import Sequence
from pathlib import Path
from urllib.parse import quote

from markdown_it import MarkdownIt
from markdown_it.token import Token

from experiments.report.markup import Html, element
from phrasescore.errors import UserError
from phrasescore.files import read_bytes

_DEEPER = 2
"""How much deeper a report's headings stand on the page."""
_WIDE = 1.5
"""Times its height a picture is wide that must not shrink to the width of a phone."""
_DESCRIPTIONS = {
    "scatter": "Scatter of the table's score against the network's, each phrase pair a point",
    "noise": "Histograms of the network's scores of true and of misaligned pairs, and the threshold between them",
    "words": "Map of the target words by their vectors, with the densest regions enlarged and labelled",
    "phrases": "Map of source phrases by their vectors, with the densest regions enlarged and labelled",
}
"""What the pictures of `experiments.qualitative` show, for those who cannot see them."""
_PICTURE = re.compile(r"!\[[^\]]*\]\(")
"""What stands before the name of a picture in Markdown."""
_TYPES = {".png": "image/png", ".svg": "image/svg+xml"}


def embedded(folder: Path) -> Html:
    """Return a report with its pictures inside; tables stand in boxes of their own.

    Raises:
        UserError: the folder has no report.md, or a picture is missing.
    """
    reader = MarkdownIt("commonmark", {"html": False}).enable("table")
    tokens = reader.parse(read_bytes(folder / "report.md").decode("utf-8", "replace"))
    pieces = [_token(token, tokens[i : i + 1], reader, folder) for i, token in enumerate(tokens)]
    # The cells of these tables have this one tag, which a reader of Markdown without HTML shows as text.
    return Html("".join(pieces).replace("&lt;br&gt;", "<br>"))


def embedded_markdown(folder: Path, place: Path) -> str:
    """Return a report as Markdown that can stand in another folder: its pictures are named from there.

    Raises:
        UserError: the folder has no report.md.
    """
    text = read_bytes(folder / "report.md").decode("utf-8", "replace")
    way = quote(Path(os.path.relpath(folder, place)).as_posix())
    return _PICTURE.sub(rf"\g<0>{way}/", text)


def _token(token: Token, itself: Sequence[Token], reader: MarkdownIt, folder: Path) -> str:
    if token.tag in {"h1", "h2", "h3"}:
        token.tag = f"h{int(token.tag[1]) + _DEEPER}"
    if token.type == "table_open":
        return '<div class="scroll" tabindex="0" role="region" aria-label="table"><table>'
    if token.type == "table_close":
        return "</table></div>"
    pictures = [child for child in token.children or [] if child.type == "image"]
    if pictures:
        return "".join(_picture(folder / str(child.attrs["src"])) for child in pictures)
    return str(reader.renderer.render(itself, reader.options, {}))


def _picture(path: Path) -> Html:
    """Return a picture as a part of the page: the drawing beside it where that takes less room."""
    pixels = read_bytes(path)
    if not pixels.startswith(b"\x89PNG"):
        raise UserError(f"{path}: is not a PNG; make the report again")
    width, height = struct.unpack(">II", pixels[16:24])
    drawing = path.with_suffix(".svg")
    files = [(path, pixels)]
    if drawing.exists():
        files.append((drawing, read_bytes(drawing)))
    smallest, content = min(files, key=lambda file: len(file[1]))
    address = f"data:{_TYPES[smallest.suffix]};base64,{base64.b64encode(content).decode()}"
    style = "wide" if width > _WIDE * height else None
    image = element("img", src=address, alt=_DESCRIPTIONS.get(path.stem, path.stem), width=width, height=height)
    return element("span", element("span", image, class_=style), class_="scroll picture", tabindex="0")
