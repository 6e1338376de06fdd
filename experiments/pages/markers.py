"""Fill the markers of a page from docs/results. Markers are HTML comments, which no viewer of Markdown shows.

A figure names file, row and column, and optionally a format that replaces the column's:

    <!--= multi30k-en-fr; +CTX; against baseline -->+4.05<!--/-->

A table names files, one a line, and optionally rows and columns. With several files, the first column has their titles
or the names after `as`:

    <!-- table
    multi30k-en-fr.training-3 as Multi30k
    rows: baseline; +RNN
    columns: test BLEU; against baseline; p against baseline
    -->
    (generated)
    <!-- end -->

The reference of the commands of a program is made from their parsers:

    <!-- commands
    phrasescore
    -->
    (generated)
    <!-- end -->

`cells: COLUMN` in place of `columns:` makes a matrix: a line for each file, a column for each row of the files. A plot
is such a matrix as a picture; its path follows the word `plot`.
"""

from __future__ import annotations

import re
from pathlib import Path

from experiments.drawing import dot_plot
from experiments.markdown import as_markdown
from experiments.pages.commands import reference
from experiments.pages.results import Results, Selection, Table
from phrasescore.errors import UserError

_FIGURE = re.compile(r"(<!--= (.+?) -->)(.*?)(<!--/-->)", re.DOTALL)
_BLOCK = re.compile(r"(<!-- (table|plot|commands)(?: ([^\n]+))?\n(.*?)\n?-->\n)(.*?)(<!-- end -->)", re.DOTALL)
_BETWEEN = r"\s*;\s*"
_IGNORED = re.compile(
    r"\b(?:arXiv|Python) [\d.]+|```.*?```|^(?: {4}|\t).*?$|`[^`]*`|\]\([^)]*\)|https?://\S+|<!--.*?-->",
    re.DOTALL | re.MULTILINE,
)
"""Text that has no measurements: commands, settings and file names in code, and addresses."""
_UNITS = r"%|BLEU\b|nats\b|chrF\b|TER\b|times\b|\w+/s\b|\w+ a (?:CPU )?second\b"
_NUMBER = re.compile(rf"(?<![\w.])[+-]?\d[\d,]*(?:\.\d+(?!\.?\d)|(?=[ \n](?:{_UNITS})))")
"""A decimal fraction, or a whole number with the unit of a measurement."""


def filled(text: str, page: Path, results: Results) -> tuple[str, dict[Path, bytes]]:
    """Return a page with its markers filled, and the pictures that it shows.

    Raises:
        UserError: a marker is malformed or names a file, row or column that does not exist.
    """
    pictures: dict[Path, bytes] = {}

    def block(match: re.Match[str]) -> str:
        opening, kind, picture, body, _, closing = match.groups()
        place = _place(text, match, page)
        if kind == "commands":
            return f"{opening}{reference(body)}{closing}"
        selection = _selection(body, results, place)
        if kind == "table":
            shown = selection.matrix() if selection.cells else (selection.head(), selection.body())
            return f"{opening}{as_markdown(*shown)}{closing}"
        if not selection.cells:
            raise UserError(f"{place}: a plot has no line `cells: COLUMN`; add it")
        pictures[page.parent / picture] = dot_plot(selection.cells, selection.numbers())
        return f"{opening}![{_in_words(selection)}]({picture})\n{closing}"

    def figure(match: re.Match[str]) -> str:
        opening, address, _, closing = match.groups()
        place = _place(text, match, page)
        if not text[: match.start()].rpartition("\n")[2].strip(" -"):
            raise UserError(f"{place}: Markdown takes a line that begins with a comment for HTML; put a word before it")
        return f"{opening}{_figure(address, results, place)}{closing}"

    return _BLOCK.sub(block, _FIGURE.sub(figure, text)), pictures


def untraced(text: str) -> list[tuple[int, str]]:
    """Return the line and the text of each figure of a page that is outside markers."""

    def erased(match: re.Match[str]) -> str:
        return re.sub(r"[^\n]", " ", match.group())

    for pattern in (_BLOCK, _FIGURE, _IGNORED):
        text = pattern.sub(erased, text)
    return [(_line(text, match), match.group()) for match in _NUMBER.finditer(text)]


def _selection(body: str, results: Results, place: str) -> Selection:
    tables: dict[str, Table] = {}
    options: dict[str, list[str]] = {}
    for line in body.splitlines():
        key, colon, value = line.partition(": ")
        if colon and key in ("rows", "columns", "cells"):
            options[key] = re.split(_BETWEEN, value)
            continue
        address, _, name = line.partition(" as ")
        table = results.table(address)
        name = name or table.title
        if name in tables:
            raise UserError(f"{place}: has two tables called {name}; rename one by ` as NAME`")
        tables[name] = table
    if not tables:
        raise UserError(f"{place}: names no file of docs/results; name one")
    rows, cells = options.get("rows"), options.get("cells", [])
    known = {column for table in tables.values() for column in table.columns}
    missing = [f"column {column}" for column in (*options.get("columns", ()), *cells) if column not in known]
    missing += [f"row {row}" for row in rows or () if not any(row in table.rows for table in tables.values())]
    if missing:
        raise UserError(f"{place}: there is no {missing[0]}; fix the marker")
    usual = list(dict.fromkeys(column for table in tables.values() for column in table.usual or table.columns))
    return Selection(tables, options.get("columns", usual), rows, "".join(cells[:1]))


def _in_words(selection: Selection) -> str:
    """Return the alternative text of a plot."""
    (_, *rows), body = selection.matrix()
    corpora = [
        f"{name}: {', '.join(f'{row} {cell}' for row, cell in zip(rows, cells, strict=True) if cell)}"
        for name, *cells in body
    ]
    return f"{selection.cells}. {'; '.join(corpora)}."


def _figure(address: str, results: Results, place: str) -> str:
    name, *rest = re.split(_BETWEEN, address.strip())
    if len(rest) not in (2, 3):
        raise UserError(
            f"{place}: `{address}` is not `FILE; ROW; COLUMN` or `FILE; ROW; COLUMN; FORMAT`; fix the marker"
        )
    try:
        return results.table(name).text(*rest)
    except (KeyError, ValueError) as error:
        raise UserError(f"{place}: {name} has {error.args[0]}; fix the marker") from error


def _place(text: str, match: re.Match[str], page: Path) -> str:
    return f"{page}:{_line(text, match)}"


def _line(text: str, match: re.Match[str]) -> int:
    return text.count("\n", 0, match.start()) + 1
