"""HTML as Python values: what is not HTML already is escaped, so no text can be taken for a tag."""

from __future__ import annotations

import html
import re
from collections.abc import Iterable

_VOID = {"br", "img", "meta"}
_FORBIDDEN = re.compile("[\x00-\x08\x0b-\x1f\x7f\ud800-\udfff\ufffe\uffff]")
"""Characters that no HTML document may hold."""


class Html(str):
    """A piece of HTML."""

    __slots__ = ()


def text(value: str) -> Html:
    """Return a text as HTML; HTML stays as it is."""
    return value if isinstance(value, Html) else Html(html.escape(_FORBIDDEN.sub("�", value)))


def join(pieces: Iterable[str], separator: str = "") -> Html:
    """Return pieces in one; those that are not HTML are escaped."""
    return Html(text(separator).join(text(piece) for piece in pieces))


def element(name: str, /, *children: str, **attributes: str | float | None) -> Html:
    """Return an element.

    Args:
        name: of the element.
        children: texts and HTML.
        attributes: `class_` stands for class and `stroke_width` for stroke-width; those that are None are left out.
    """
    written = "".join(
        f' {key.rstrip("_").replace("_", "-")}="{text(str(value))}"'
        for key, value in attributes.items()
        if value is not None
    )
    return Html(f"<{name}{written}>" if name in _VOID else f"<{name}{written}>{join(children)}</{name}>")


def table(head: Iterable[Iterable[str]], body: Iterable[Iterable[str]], caption: str | None = None) -> Html:
    """Return a table in a box of its own, which scrolls where the page is narrow.

    Args:
        head: rows of cells; a cell may be a whole `th`.
        body: rows of cells, the first of each its heading; a cell may be a whole `td`.
        caption: what the table shows.
    """
    title = [element("caption", caption)] if caption else []
    heads = [element("tr", *(_cell("th", cell, scope="col") for cell in row)) for row in head]
    rows = [
        element("tr", _cell("th", first, scope="row"), *(_cell("td", cell) for cell in others))
        for first, *others in body
    ]
    content = element("table", *title, element("thead", *heads), element("tbody", *rows))
    # With a tabindex the box can be scrolled by keyboard.
    return element("div", content, class_="scroll", tabindex="0", role="region", aria_label=caption or "table")


def heading(content: str, *, columns: int = 1, rows: int = 1, of_text: bool = False) -> Html:
    """Return a heading over several columns, or as high as several rows, or of text, for the head of a table."""
    if columns > 1:
        return element("th", content, colspan=columns, scope="colgroup")
    return element("th", content, rowspan=rows, scope="col", class_="text" if of_text else None)


def _cell(name: str, content: str, **attributes: str) -> Html:
    if isinstance(content, Html) and content.startswith(("<td", "<th")):
        return content
    return element(name, content, **attributes)


def definitions(facts: Iterable[tuple[str, str]]) -> Html:
    """Return names and what they stand for as a list."""
    return element("dl", *(element("div", element("dt", name), element("dd", value)) for name, value in facts))


def identifier(*names: str) -> str:
    """Return what an element with these names is called in links."""
    return "-".join(re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-") for name in names)
