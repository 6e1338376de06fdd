"""What pages show of docs/results stands between comments, which GitHub does not show.

A single figure names the file, the row and the column, and a format if it is to be another than the column's:

    <!--= multi30k-en-fr; +CTX; against baseline -->+4.05<!--/-->

A table names files, one a line, and if not all of them are wanted, rows and columns; of several files the first column
has their titles, or what stands behind `as`:

    <!-- table
    multi30k-en-fr.training-3 as Multi30k
    rows: baseline; +RNN
    columns: test BLEU; against baseline; p against baseline
    -->
    (made from the files)
    <!-- end -->

A plot is named in the same way, with the picture behind the word `plot`; its columns are those of the dots.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

from experiments.markdown import as_markdown
from experiments.pages.results import Results, Selection
from phrasescore.errors import UserError

_FIGURE = re.compile(r"(<!--= (.+?) -->)(.*?)(<!--/-->)", re.DOTALL)
_BLOCK = re.compile(r"(<!-- (table|plot)(?: ([^\n]+))?\n(.*?)\n?-->\n)(.*?)(<!-- end -->)", re.DOTALL)
_BETWEEN = r"\s*;\s*"
_ELSEWHERE = re.compile(
    r"\b(?:arXiv|Python) [\d.]+|```.*?```|^(?: {4}|\t).*?$|`[^`]*`|\]\([^)]*\)|https?://\S+|<!--.*?-->",
    re.DOTALL | re.MULTILINE,
)
"""What no reader takes for a measurement: commands, settings and file names in code, and addresses."""
_UNITS = r"%|BLEU\b|nats\b|chrF\b|TER\b|times\b|\w+/s\b|\w+ a (?:CPU )?second\b"
_NUMBER = re.compile(rf"(?<![\w.])[+-]?\d[\d,]*(?:\.\d+(?!\.?\d)|(?=[ \n](?:{_UNITS})))")
"""A decimal fraction, or a whole number of something that is measured."""

Draw = Callable[[Selection], bytes]
"""Makes a picture."""


def filled(text: str, page: Path, results: Results, draw: Draw) -> tuple[str, dict[Path, bytes]]:
    """Return a page with what its markers name, and the pictures that it shows.

    Raises:
        UserError: a marker names what is not there.
    """
    pictures: dict[Path, bytes] = {}

    def block(match: re.Match[str]) -> str:
        opening, kind, picture, body, _, closing = match.groups()
        selection = _selection(body, results, _place(text, match, page))
        if kind == "table":
            return f"{opening}{as_markdown(selection.head(), selection.body())}{closing}"
        pictures[page.parent / picture] = draw(selection)
        return f"{opening}![{_in_words(selection)}]({picture})\n{closing}"

    def figure(match: re.Match[str]) -> str:
        opening, address, _, closing = match.groups()
        place = _place(text, match, page)
        if not text[: match.start()].rpartition("\n")[2].strip(" -"):
            raise UserError(f"{place}: begins with a comment, which Markdown takes for HTML; put a word before it")
        return f"{opening}{_figure(address, results, place)}{closing}"

    return _BLOCK.sub(block, _FIGURE.sub(figure, text)), pictures


def untraced(text: str) -> list[tuple[int, str]]:
    """Return the figures of a page that no marker stands around: the line and the figure of each."""

    def blank(match: re.Match[str]) -> str:
        return re.sub(r"[^\n]", " ", match.group())

    for pattern in (_BLOCK, _FIGURE, _ELSEWHERE):
        text = pattern.sub(blank, text)
    return [(_line(text, match), match.group()) for match in _NUMBER.finditer(text)]


def _selection(body: str, results: Results, place: str) -> Selection:
    tables, rows, columns = {}, None, None
    for line in body.splitlines():
        key, _, value = line.partition(": ")
        if key == "rows":
            rows = re.split(_BETWEEN, value)
        elif key == "columns":
            columns = re.split(_BETWEEN, value)
        else:
            address, _, name = line.partition(" as ")
            table = results.table(address)
            name = name or table.title
            if name in tables:
                raise UserError(f"{place}: has two tables called {name}; call one otherwise, by ` as NAME`")
            tables[name] = table
    if not tables:
        raise UserError(f"{place}: names no file of docs/results; name one")
    known = list(dict.fromkeys(column for table in tables.values() for column in table.columns))
    faults = [f"column {column}" for column in columns or () if column not in known]
    faults += [f"row {row}" for row in rows or () if not any(row in table.rows for table in tables.values())]
    if faults:
        raise UserError(f"{place}: there is no {faults[0]}; mend the marker")
    usual = list(dict.fromkeys(column for table in tables.values() for column in table.usual or table.columns))
    return Selection(tables, columns or usual, rows)


def _in_words(selection: Selection) -> str:
    """Return what a plot shows, for those who cannot see it."""
    [column] = selection.columns
    said: dict[str, list[str]] = {name: [] for name in selection.tables}
    for name, table, row in selection.lines():
        if table.cell(row, column):
            said[name].append(f"{row} {table.text(row, column, table.columns[column])}")
    corpora = "; ".join(f"{name}: {', '.join(figures)}" for name, figures in said.items())
    return f"{column}. {corpora}."


def _figure(address: str, results: Results, place: str) -> str:
    name, *rest = re.split(_BETWEEN, address.strip())
    if len(rest) not in (2, 3):
        raise UserError(f"{place}: `{address}` is not FILE; ROW; COLUMN, with a FORMAT if need be; mend the marker")
    try:
        return results.table(name).text(*rest)
    except (KeyError, ValueError) as error:
        raise UserError(f"{place}: {name} has {error.args[0]}; mend the marker") from error


def _place(text: str, match: re.Match[str], page: Path) -> str:
    return f"{page}: line {_line(text, match)}"


def _line(text: str, match: re.Match[str]) -> int:
    return text.count("\n", 0, match.start()) + 1
