"""Render the report as one HTML file with inline style and script."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from experiments.ablation.page.charts import learning_chart, row_chart
from experiments.ablation.page.translations import Sentence, read_translations
from experiments.ablation.rows import BASELINE, PARTS, Row
from experiments.ablation.summary import summary
from experiments.pages.results import COSTS, Selection, Table, networks_of, rows_of, test_suffixes
from experiments.steps import Json
from phrasescore import __version__
from phrasescore.files import write_atomically

_SIGNIFICANT = 0.05


@dataclass(frozen=True)
class AblationPage:
    """The data of an ablation for the page template."""

    folder: Path
    report: Json

    @cached_property
    def kept(self) -> Json:
        """The summary."""
        return summary(self.report)

    @cached_property
    def table(self) -> Table:
        """The rows of the ablation."""
        return rows_of(self.kept)

    @property
    def first(self) -> str:
        """The reference row: the baseline if there is one."""
        return BASELINE if BASELINE in self.table.rows else next(iter(self.table.rows))

    @property
    def best(self) -> str:
        """The row with the highest dev BLEU except the reference row; the test set is not used.

        Rescoring rows are excluded if there are other rows, because their dev BLEU is measured on the lists that they
        were tuned on and is optimistic.
        """
        others = [name for name in self.table.rows if name != self.first]
        others = [name for name in others if not Row.parse(name).listed] or others or [self.first]
        return max(others, key=lambda name: float(self.kept["rows"][name]["dev_bleu"]["mean"]))

    @property
    def conclusion(self) -> str:
        """One-sentence conclusion."""
        first, best = self.first, self.best
        compared = self.kept["rows"][best]["against"].get(first)
        result = f"{best} has {self.table.text(best, 'test BLEU', '.2f')} BLEU on the test text"
        if compared is None:
            return f"{result}."
        change = f"{abs(compared['difference']):.2f} {'more' if compared['difference'] > 0 else 'less'}"
        other = f"the {first}" if first == BASELINE else first
        random = "" if compared["p_value"] < _SIGNIFICANT else ", which may be random"
        return f"{result}, {change} than {other} (p = {self.table.text(best, f'p against {first}')}){random}."

    @property
    def rows(self) -> Selection:
        """The table of rows."""
        # The most important columns come first, because phones show only those.
        names = ["test BLEU", f"against {self.first}", f"p against {self.first}", "± training", "± tuning"]
        columns = [f"{name}{suffix}" for suffix in test_suffixes(self.kept) for name in names]
        return self.table.select([*columns, "dev BLEU", "chrF", "TER", "minutes"])

    @property
    def parts(self) -> dict[str, str]:
        """Descriptions of the parts in the names of rows."""
        used = {part for name in self.table.rows for part in Row.parse(name).parts}
        return {part: what for part, what in PARTS.items() if part in used}

    @property
    def costs(self) -> Selection:
        """The decoding times, without columns of zeros."""
        rows = self.table.rows.values()
        return self.table.select([column for column in COSTS if any(row.get(column) for row in rows)])

    @property
    def networks(self) -> list[list[str]]:
        """Table of the networks, transposed to stay narrow: one column per network."""
        table = networks_of(self.kept)
        return _turned(table.select(list(table.columns)))

    @property
    def weights(self) -> list[list[str]]:
        """Table of the weights: one line per weight, one column per row."""
        names = [column for column in self.table.columns if column.startswith("weight of ")]
        return [[name.removeprefix("weight of "), *cells] for name, *cells in _turned(self.table.select(names))]

    @property
    def bleu_charts(self) -> list[Markup]:
        """Charts of BLEU on the test sets and the dev set."""
        rows = {self.first: self.kept["rows"][self.first], **self.kept["rows"]}
        further = {test: {name: row["tests"][test] for name, row in rows.items()} for test in rows[self.first]["tests"]}
        charts = [row_chart("test BLEU", "test_bleu", rows)]
        charts += [row_chart(f"test BLEU, {test}", "test_bleu", found) for test, found in further.items()]
        return [*charts, row_chart("dev BLEU", "dev_bleu", rows)]

    @property
    def learning_charts(self) -> list[Markup]:
        """Learning curves of the networks."""
        return [learning_chart(name, network) for name, network in self.report["networks"].items()]

    @cached_property
    def translations(self) -> list[Sentence]:
        """Translations of test sentences; empty without test set or without a second row."""
        if self.first == self.best:
            return []
        return read_translations(self.folder, self.report, self.first, self.best)

    @property
    def provenance(self) -> dict[str, str]:
        """Information for reproduction, as JSON."""
        told = {"signatures": self.kept["signatures"], **self.kept["provenance"]}
        told |= {name: self.report[name] for name in ("build", "tables") if name in self.report}
        told |= {f"network {name}": network for name, network in self.kept["networks"].items()}
        return {name: json.dumps(value, indent=1, ensure_ascii=False) for name, value in told.items()}


def _turned(selection: Selection) -> list[list[str]]:
    """Transpose a table."""
    return [list(line) for line in zip(selection.head(), *selection.body(), strict=True)]


def _breakable(name: str) -> Markup:
    """Return a name that a browser may break before its parts, as +RNN+CSLM and LexicalReordering0."""
    return Markup("<wbr>").join(re.split(r"(?=\+)|(?<=[a-z])(?=[A-Z])", name))


def write_page(report: Json, folder: Path) -> None:
    """Write report.html about an ablation into its folder."""
    environment = Environment(
        loader=FileSystemLoader(Path(__file__).parent), autoescape=True, undefined=StrictUndefined
    )
    environment.filters["breakable"] = _breakable
    environment.trim_blocks = environment.lstrip_blocks = True
    page = environment.get_template("page.html").render(page=AblationPage(folder, report), version=__version__)
    write_atomically(folder / "report.html", page.encode("utf-8", "replace"))
