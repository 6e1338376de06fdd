"""The files of docs/results as tables, whose cells pages show and name by file, row and column.

A file `NAME.json` is the table `NAME`. An ablation has its networks in `NAME/networks`.
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
from phrasescore.documents import read_json
from phrasescore.errors import UserError

Cell: TypeAlias = "float | str | Mapping[str, float | None] | None"
"""A mapping has the `mean` and the `standard_deviation` of several seeds."""

_SCHEMA = Path(__file__).with_name("result.schema.json")
_MEASURES = {"dev BLEU": "dev_bleu", "test BLEU": "test_bleu", "chrF": "chrf", "TER": "ter"}
COSTS = {
    "seconds a sentence": (("cold", "seconds"), ".3f"),
    "again": (("warm", "seconds"), ".3f"),
    "for the lists": (("rescoring",), ".3f"),
    "for the table": (("placing",), ".3f"),
    "queries": (("cold", "queries"), ",.0f"),
    "from the cache": (("cold", "served"), ".0%"),
}
"""What translating costs: keys of the report, and a format."""


@dataclass(frozen=True)
class Table:
    """Figures by row and column."""

    title: str
    columns: Mapping[str, str]
    """For each column, but that of the rows' names, a format; `p` is that of p-values, and none that of text."""
    rows: Mapping[str, Mapping[str, Cell]]
    heading: str = "row"
    """Of the column of the rows' names."""
    usual: tuple[str, ...] = ()
    """The columns that are shown where a marker names none; all if there are none."""

    def text(self, row: str, column: str, form: str | None = None) -> str:
        """Return a cell as pages show it, in the format of its column or in another one.

        Raises:
            KeyError: there is no such row or column, or nothing in the cell; the message says so.
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
        """Return a cell as a table shows it: nothing where there is nothing."""
        return _shown(self.rows[row].get(column), self.columns.get(column, ""), None)

    def select(self, columns: Sequence[str]) -> Selection:
        """Return all rows of some columns."""
        return Selection({self.title: self}, columns)


def _shown(cell: Cell, form: str, other: str | None) -> str:
    if cell is None or isinstance(cell, str):
        return cell or ""
    if isinstance(cell, Mapping):
        mean, deviation = cell["mean"], cell["standard_deviation"]
        assert mean is not None
        # Another format is for the mean alone, as running text has it.
        alone = format(mean, other or form)
        return alone if other or deviation is None else f"{alone} ± {deviation:{form}}"
    form = other or form
    if form == "p":
        form = ".2f" if cell >= 0.1 else ".3f" if cell >= 0.00095 else ".4f"
    shown = format(cell, form)
    return shown.replace("%", " %")


@dataclass(frozen=True)
class Selection:
    """Parts of tables that are shown together."""

    tables: Mapping[str, Table]
    """By what they are called there."""
    columns: Sequence[str]
    rows: Sequence[str] | None = None
    """All if None."""

    def lines(self) -> Iterator[tuple[str, Table, str]]:
        """Yield what a table is called, the table, and a row, for every row that is shown."""
        for name, table in self.tables.items():
            for row in self.rows or table.rows:
                if row in table.rows:
                    yield name, table, row

    def head(self) -> list[str]:
        """Return the headings; columns with nothing in them are left out."""
        first = next(iter(self.tables.values()))
        corpus = ["corpus"] if len(self.tables) > 1 else []
        return [*corpus, first.heading, *(re.sub("^p against .*", "p", column) for column in self._filled())]

    def body(self) -> list[list[str]]:
        """Return the cells below the headings; a table is named in its first row."""
        body, before = [], None
        for name, table, row in self.lines():
            corpus = [name if name != before else ""] if len(self.tables) > 1 else []
            body.append([*corpus, row, *(table.cell(row, column) for column in self._filled())])
            before = name
        return body

    def _filled(self) -> list[str]:
        lines = list(self.lines())
        return [column for column in self.columns if any(table.cell(row, column) for _, table, row in lines)]


@dataclass(frozen=True)
class Results:
    """The files of a folder."""

    folder: Path

    def names(self) -> list[str]:
        """Return the names of the files, without .json."""
        return sorted(path.stem for path in self.folder.glob("*.json"))

    def table(self, address: str) -> Table:
        """Return a table by its address: `NAME` or `NAME/networks`.

        Raises:
            UserError: there is none, or its file does not follow the schema.
        """
        name, _, part = address.partition("/")
        path = self.folder / f"{name}.json"
        result = _read(path)
        if result["kind"] == "table" and not part:
            return table_of(result)
        views = {"": rows_of, "networks": networks_of}
        if result["kind"] != "ablation" or part not in views:
            raise UserError(f"{path}: has no part {part}; name {name} alone")
        return views[part](result)


@cache
def _read(path: Path) -> Json:
    """Return the content of a file of results.

    Raises:
        UserError: it cannot be read, or does not follow the schema.
    """
    result = read_json(path, "name a file of docs/results")
    # Why it is of neither kind is best said by the kind that it says it is.
    kind = "table" if result.get("kind") == "table" else "ablation"
    schema = {**json.loads(_SCHEMA.read_text()), "oneOf": [{"$ref": f"#/$defs/{kind}"}]}
    fault = best_match(Draft202012Validator(schema).iter_errors(result))
    if fault is not None:
        place = "/".join(map(str, fault.absolute_path)) or "the whole"
        raise UserError(f"{path}: {place}: {fault.message[:200]}; see {_SCHEMA.name}")
    for row in result["rows"] if kind == "table" else ():
        if len(row) != len(result["columns"]):
            raise UserError(f"{path}: the row {row[0]} has {len(row)} cells for {len(result['columns'])} columns")
    return result


def table_of(result: Json) -> Table:
    """Return a file that is one table."""
    heading, *names = result["columns"]
    columns = {name: result["columns"][name] for name in names}
    rows = {str(first): dict(zip(names, cells, strict=True)) for first, *cells in result["rows"]}
    return Table(result["title"], columns, rows, heading)


def rows_of(result: Json) -> Table:
    """Return the rows of an ablation, from what is kept of it."""
    others = list(dict.fromkeys(other for row in result["rows"].values() for other in row["against"]))
    features = list(dict.fromkeys(name for row in result["rows"].values() for name in row.get("weights", {})))
    columns = dict.fromkeys(_MEASURES, ".2f")
    for other in others:
        columns |= {f"against {other}": "+z.2f", f"p against {other}": "p"}
    columns |= {"minutes": ".1f", **{column: form for column, (_, form) in COSTS.items()}}
    columns |= {_weight_of(feature): ".1%" for feature in features}
    rows = {name: _cells(row) for name, row in result["rows"].items()}
    usual = (*_MEASURES, "against baseline", "p against baseline")
    return Table(result["title"], columns, rows, usual=usual)


def _weight_of(feature: str) -> str:
    return f"weight of {feature.removeprefix('TranslationModel0: ')}"


def _cells(row: Json) -> dict[str, Cell]:
    cells: dict[str, Cell] = {column: row.get(measure) for column, measure in _MEASURES.items()}
    for other, compared in row["against"].items():
        cells |= {f"against {other}": compared["difference"], f"p against {other}": compared["p_value"]}
    seconds = row.get("seconds")
    cells["minutes"] = None if seconds is None else seconds / 60
    for column, (keys, _) in COSTS.items():
        cells[column] = _at(row.get("translating"), keys)
    return cells | {_weight_of(feature): weight for feature, weight in row.get("weights", {}).items()}


def networks_of(result: Json) -> Table:
    """Return the networks of an ablation."""
    columns = {"parameters": ",d", "updates": ",d", "passes": ".1f", "minutes": ".1f"}
    losses = {
        f"nats per {unit} {where}": (part, f"per_{unit}")
        for part, where in (("held_out", "held out"), ("validation", "of the dev set"))
        for unit in ("pair", "word")
    }
    perplexities = {"perplexity": "network", "of the n-gram model": "backoff", "interpolated": "interpolation"}
    rows: dict[str, dict[str, Cell]] = {}
    for name, network in result["networks"].items():
        seconds = network.get("seconds")
        rows[name] = {key: network.get(key) for key in ("parameters", "updates", "passes")}
        rows[name]["minutes"] = None if seconds is None else seconds / 60
        rows[name] |= {column: _at(network, keys) for column, keys in losses.items()}
        for found in network.get("perplexities", [])[:1]:
            rows[name] |= {column: found["perplexity"][key] for column, key in perplexities.items()}
            rows[name]["weight"] = found["weight"]
    columns |= dict.fromkeys((*losses, *perplexities, "weight"), ".2f")
    return Table(result["title"], columns, rows, "network")


def _at(value: Any, keys: Sequence[str]) -> Any:
    for key in keys:
        value = value.get(key) if value else None
    return value
