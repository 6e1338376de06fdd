"""The page: one HTML file with its style and its script inside, and nothing to fetch."""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from experiments.ablation.page.charts import learning_chart, row_chart
from experiments.ablation.page.translations import Sentence, read_translations
from experiments.ablation.rows import BASELINE, PARTS, Row
from experiments.ablation.summary import summary
from experiments.pages.results import COSTS, Selection, Table, networks_of, rows_of
from experiments.steps import Json
from phrasescore import __version__
from phrasescore.files import write_atomically

_LIKELY_CHANCE = 0.05
_ROWS = ["test BLEU", "against {}", "p against {}", "dev BLEU", "chrF", "TER", "minutes"]
"""In an order that has the first ones in sight on a phone."""


@dataclass(frozen=True)
class AblationPage:
    """An ablation, as the page's template wants it."""

    folder: Path
    report: Json

    @cached_property
    def kept(self) -> Json:
        """What is kept of it."""
        return summary(self.report)

    @cached_property
    def table(self) -> Table:
        """The rows."""
        return rows_of(self.kept)

    @property
    def first(self) -> str:
        """The row that others are compared with: the baseline if there is one."""
        return BASELINE if BASELINE in self.table.rows else next(iter(self.table.rows))

    @property
    def best(self) -> str:
        """The row with the highest dev BLEU besides that one, if there are others; the test text has no part in it.

        Rows whose lists are rescored are left out where there are others: their dev BLEU is that of the lists that they
        were tuned on, and flatters.
        """
        others = [name for name in self.table.rows if name != self.first]
        others = [name for name in others if not Row.parse(name).listed] or others or [self.first]
        return max(others, key=lambda name: float(self.kept["rows"][name]["dev_bleu"]["mean"]))

    @property
    def conclusion(self) -> str:
        """What came out, in a sentence."""
        first, best = self.first, self.best
        compared = self.kept["rows"][best]["against"].get(first)
        said = f"{best} has {self.table.text(best, 'test BLEU', '.2f')} BLEU on the test text"
        if compared is None:
            return f"{said}."
        change = f"{abs(compared['difference']):.2f} {'more' if compared['difference'] > 0 else 'less'}"
        other = f"the {first}" if first == BASELINE else first
        chance = "" if compared["p_value"] < _LIKELY_CHANCE else ", which may be chance"
        return f"{said}, {change} than {other} (p = {self.table.text(best, f'p against {first}')}){chance}."

    @property
    def rows(self) -> Selection:
        """The table of rows."""
        return self.table.select([column.format(self.first) for column in _ROWS])

    @property
    def parts(self) -> dict[str, str]:
        """What the parts are that the rows are named by."""
        used = {part for name in self.table.rows for part in Row.parse(name).parts}
        return {part: what for part, what in PARTS.items() if part in used}

    @property
    def costs(self) -> Selection:
        """What translating costs."""
        return self.table.select(list(COSTS))

    @property
    def networks(self) -> list[list[str]]:
        """A line for each thing that is known of the networks, a column for each network: they stay narrow."""
        table = networks_of(self.kept)
        return _turned(table.select(list(table.columns)))

    @property
    def weights(self) -> list[list[str]]:
        """A line for each weight, a column for each row."""
        names = [column for column in self.table.columns if column.startswith("weight of ")]
        return [[name.removeprefix("weight of "), *cells] for name, *cells in _turned(self.table.select(names))]

    @property
    def bleu_charts(self) -> list[Markup]:
        """BLEU of the rows on test and dev text."""
        rows = {self.first: self.kept["rows"][self.first], **self.kept["rows"]}
        return [row_chart("test BLEU", "test_bleu", rows), row_chart("dev BLEU", "dev_bleu", rows)]

    @property
    def learning_charts(self) -> list[Markup]:
        """How the networks learnt."""
        return [learning_chart(name, network) for name, network in self.report["networks"].items()]

    @cached_property
    def translations(self) -> list[Sentence]:
        """What the rows made of the test text, if it is there and there is something to compare."""
        if self.first == self.best:
            return []
        return read_translations(self.folder, self.report, self.first, self.best)

    @property
    def provenance(self) -> dict[str, str]:
        """What one needs to do it again, as JSON."""
        told = {"signatures": self.kept["signatures"], **self.kept["provenance"]}
        told |= {name: self.report[name] for name in ("build", "tables") if name in self.report}
        told |= {f"network {name}": network for name, network in self.kept["networks"].items()}
        return {name: json.dumps(value, indent=1, ensure_ascii=False) for name, value in told.items()}


def _turned(selection: Selection) -> list[list[str]]:
    """Return a table with its rows as columns."""
    return [list(line) for line in zip(selection.head(), *selection.body(), strict=True)]


def write_page(report: Json, folder: Path) -> None:
    """Write report.html about an ablation into its folder.

    Raises:
        UserError: it cannot be written.
    """
    environment = Environment(
        loader=FileSystemLoader(Path(__file__).parent), autoescape=True, undefined=StrictUndefined
    )
    environment.trim_blocks = environment.lstrip_blocks = True
    page = environment.get_template("page.html").render(page=AblationPage(folder, report), version=__version__)
    write_atomically(folder / "report.html", page.encode("utf-8", "replace"))
