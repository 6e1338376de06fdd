"""Read the files of docs/results as tables; pages address their cells by file, row and column.

A file `NAME.json` is the table `NAME`. The networks of an ablation are the table `NAME/networks`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, TypeAlias

from jsonschema import Draft202012Validator
from jsonschema.exceptions import best_match

from experiments.steps import Json
from phrasescore.errors import UserError
from phrasescore.files.documents import read_json

Cell: TypeAlias = "float | str | Mapping[str, float | None] | None"
"""A mapping has the `mean` and the `standard_deviation` over several runs."""

_SCHEMA = Path(__file__).with_name("result.schema.json")
_MEASURES = {"test BLEU": "test_bleu", "chrF": "chrf", "TER": "ter"}
"""Measures of the translation of a test set."""
_PARTS = {"± training": "training", "± tuning": "tuning"}
"""Parts of the standard deviation of test BLEU, if there are several trainings."""
COSTS = {
    "s/sentence": (("cold", "seconds"), ".3f"),
    "s/sentence, warm cache": (("warm", "seconds"), ".3f"),
    "rescoring, s": (("rescoring",), ".3f"),
    "per-text table, s": (("indexing",), ".3f"),
    "LM queries": (("cold", "queries"), ",.0f"),
    "cache hits": (("cold", "served"), ".0%"),
}
"""Cost of translation by column: the keys of the report and a format."""


@dataclass(frozen=True)
class Table:
    """Figures by row and column."""

    title: str
    columns: Mapping[str, str]
    """The format of each column except the first: `p` for p-values, empty for text."""
    rows: Mapping[str, Mapping[str, Cell]]
    heading: str = "row"
    """Heading of the first column, which has the names of the rows."""
    usual: tuple[str, ...] = ()
    """The columns to show where a marker names none; all columns if empty."""

    def text(self, row: str, column: str, form: str | None = None) -> str:
        """Return a cell in the format of its column, or the mean alone in another format.

        Raises:
            KeyError: the row or the column does not exist or the cell is empty; the message says which.
        """
        if row not in self.rows:
            raise KeyError(f"no row {row}; there are {', '.join(self.rows)}")
        if column not in self.columns:
            raise KeyError(f"no column {column}; there are {', '.join(self.columns)}")
        shown = _shown(self.rows[row].get(column), self.columns[column], form)
        if not shown:
            raise KeyError(f"nothing in row {row}, column {column}")
        return shown

    def cell(self, row: str, column: str) -> str:
        """Return a cell in the format of its column; empty if the table has no such cell."""
        return _shown(self.rows.get(row, {}).get(column), self.columns.get(column, ""), None)

    def select(self, columns: Sequence[str]) -> Selection:
        """Return all rows of some columns."""
        return Selection({self.title: self}, columns)


def _shown(cell: Cell, form: str, other: str | None) -> str:
    if cell is None or isinstance(cell, str):
        return cell or ""
    if isinstance(cell, Mapping):
        mean, deviation = cell["mean"], cell["standard_deviation"]
        assert mean is not None
        alone = format(mean, other or form)
        return alone if other or deviation is None else f"{alone} ± {deviation:{form}}"
    form = other or form
    if form == "p":
        form = ".2f" if cell >= 0.1 else ".3f" if cell >= 0.00095 else ".4f"
    return format(cell, form).replace("%", " %")


@dataclass(frozen=True)
class Selection:
    """Rows and columns of one or more tables that are shown together."""

    tables: Mapping[str, Table]
    """Tables by the name that the page shows."""
    columns: Sequence[str]
    rows: Sequence[str] | None = None
    """All rows if None."""
    cells: str = ""
    """The column of the cells of a matrix; empty if the selection is not a matrix."""

    def lines(self) -> Iterator[tuple[str, Table, str]]:
        """Yield the name of the table, the table and the row for each row that is shown."""
        for name, table in self.tables.items():
            for row in self.rows or table.rows:
                if row in table.rows:
                    yield name, table, row

    def head(self) -> list[str]:
        """Return the headings without those of empty columns."""
        first = next(iter(self.tables.values()))
        corpus = ["corpus"] if len(self.tables) > 1 else []
        return [*corpus, first.heading, *(re.sub("^p against .*", "p", column) for column in self._filled())]

    def body(self) -> list[list[str]]:
        """Return the cells below the headings; only the first row of a table has its name."""
        body, before = [], None
        for name, table, row in self.lines():
            corpus = [name if name != before else ""] if len(self.tables) > 1 else []
            body.append([*corpus, row, *(table.cell(row, column) for column in self._filled())])
            before = name
        return body

    def matrix(self) -> tuple[list[str], list[list[str]]]:
        """Return headings and cells of a line for each table and a column for each row."""
        rows = list(dict.fromkeys(row for _, _, row in self.lines()))
        body = [[name, *(table.cell(row, self.cells) for row in rows)] for name, table in self.tables.items()]
        return ["corpus", *rows], body

    def numbers(self) -> dict[str, dict[str, float]]:
        """Return the figures of the matrix by table and row, means where there are several runs."""
        found: dict[str, dict[str, float]] = {name: {} for name in self.tables}
        for name, table, row in self.lines():
            cell = table.rows[row].get(self.cells)
            value = cell["mean"] if isinstance(cell, Mapping) else cell
            if value is not None:
                found[name][row] = float(value)
        return found

    def _filled(self) -> list[str]:
        lines = list(self.lines())
        return [column for column in self.columns if any(table.cell(row, column) for _, table, row in lines)]


@dataclass(frozen=True)
class Results:
    """The files of a folder."""

    folder: Path

    def names(self) -> list[str]:
        """Return the names of the files without `.json`."""
        return sorted(path.stem for path in self.folder.glob("*.json"))

    def read(self, name: str) -> Json:
        """Return the content of a file.

        Raises:
            UserError: the file does not exist or does not follow the schema.
        """
        return _read(self.folder / f"{name}.json")

    def table(self, address: str) -> Table:
        """Return the table at an address, `NAME` or `NAME/networks`.

        Raises:
            UserError: the file does not exist, does not follow the schema, or has no such part.
        """
        name, _, part = address.partition("/")
        result = self.read(name)
        if result["kind"] == "table" and not part:
            return table_of(result)
        views = {"": rows_of, "networks": networks_of}
        if result["kind"] != "ablation" or part not in views:
            raise UserError(f"{self.folder / name}.json: has no part {part}; name {name} alone")
        return views[part](result)


@cache
def _read(path: Path) -> Json:
    result = read_json(path, "name a file of docs/results")
    # Validate against the kind that the file states: the errors of `oneOf` would name both kinds.
    kind = "table" if result.get("kind") == "table" else "ablation"
    schema = {**json.loads(_SCHEMA.read_text()), "oneOf": [{"$ref": f"#/$defs/{kind}"}]}
    fault = best_match(Draft202012Validator(schema).iter_errors(result))
    if fault is not None:
        place = "/".join(map(str, fault.absolute_path)) or "the whole file"
        raise UserError(f"{path}: {place}: {fault.message[:200]}; see {_SCHEMA.name}")
    cells = set()
    for row in result["rows"] if kind == "table" else ():
        if str(row[0]) in cells:
            raise UserError(f"{path}: two rows are called {row[0]}; give each another first cell")
        cells.add(str(row[0]))
        if len(row) != len(result["columns"]):
            raise UserError(f"{path}: the row {row[0]} has {len(row)} cells for {len(result['columns'])} columns")
    return result


def table_of(result: Json) -> Table:
    """Return the table of a file of kind `table`."""
    heading, *names = result["columns"]
    columns = {name: result["columns"][name] for name in names}
    rows = {str(first): dict(zip(names, cells, strict=True)) for first, *cells in result["rows"]}
    return Table(result["title"], columns, rows, heading)


def rows_of(result: Json) -> Table:
    """Return the rows of an ablation from its summary."""
    others = list(dict.fromkeys(other for row in result["rows"].values() for other in row["against"]))
    features = list(dict.fromkeys(name for row in result["rows"].values() for name in row.get("weights", {})))
    columns, suffixes = {"runs": "d", "dev BLEU": ".2f"}, test_suffixes(result)
    for suffix in suffixes:
        columns |= dict.fromkeys((f"{measure}{suffix}" for measure in (*_MEASURES, *_PARTS)), ".2f")
        for other in others:
            columns |= {f"against {other}{suffix}": "+z.2f", f"p against {other}{suffix}": "p"}
    columns |= {"minutes": ".1f", **{column: form for column, (_, form) in COSTS.items()}}
    columns |= {_weight_of(feature): ".1%" for feature in features}
    rows = {name: _cells(row) for name, row in result["rows"].items()}
    usual = ("dev BLEU", *_MEASURES, "against baseline", "p against baseline")
    usual += tuple(f"test BLEU{suffix}" for suffix in suffixes[1:])
    return Table(result["title"], columns, rows, usual=usual)


def test_suffixes(result: Json) -> list[str]:
    """Return the ends of the names of the columns of each test set; those of the first have none."""
    tests = dict.fromkeys(test for row in result["rows"].values() for test in row.get("tests", ()))
    return ["", *(f", {test}" for test in tests)]


def _weight_of(feature: str) -> str:
    return f"weight of {feature.removeprefix('TranslationModel0: ')}"


def _cells(row: Json) -> dict[str, Cell]:
    cells: dict[str, Cell] = {"runs": len(row.get("seeds", [])) or None, "dev BLEU": row.get("dev_bleu")}
    for suffix, found in (("", row), *((f", {test}", found) for test, found in row.get("tests", {}).items())):
        cells |= {f"{column}{suffix}": found.get(measure) for column, measure in _MEASURES.items()}
        cells |= {f"{column}{suffix}": _at(found.get("test_bleu"), [part]) for column, part in _PARTS.items()}
        for other, compared in found["against"].items():
            cells[f"against {other}{suffix}"] = compared["difference"]
            cells[f"p against {other}{suffix}"] = compared["p_value"]
    cells["minutes"] = _minutes(row)
    cells |= {column: _at(row.get("translating"), keys) for column, (keys, _) in COSTS.items()}
    return cells | {_weight_of(feature): weight for feature, weight in row.get("weights", {}).items()}


def networks_of(result: Json) -> Table:
    """Return the networks of an ablation."""
    losses = {
        f"nats per {unit} {where}": (part, f"per_{unit}")
        for part, where in (("held_out", "held out"), ("validation", "of the dev set"))
        for unit in ("pair", "word")
    }
    perplexities = {"perplexity": "network", "of the n-gram model": "backoff", "interpolated": "interpolation"}
    rows: dict[str, dict[str, Cell]] = {}
    for name, network in result["networks"].items():
        cells = {"parameters": network.get("parameters"), "updates": network.get("updates")}
        cells |= {"epochs": network.get("epochs"), "minutes": _minutes(network)}
        cells |= {column: _at(network, keys) for column, keys in losses.items()}
        for found in network.get("perplexities", [])[:1]:
            cells |= {column: found["perplexity"][key] for column, key in perplexities.items()}
            cells["weight"] = found["weight"]
        rows[name] = cells
    columns = {"parameters": ",d", "updates": ",d", "epochs": ".1f", "minutes": ".1f"}
    columns |= dict.fromkeys((*losses, *perplexities, "weight"), ".2f")
    return Table(result["title"], columns, rows, "network")


def _minutes(timed: Json) -> float | None:
    seconds = timed.get("seconds")
    return None if seconds is None else seconds / 60


def _at(value: Any, keys: Sequence[str]) -> Any:
    for key in keys:
        value = value.get(key) if value else None
    return value
