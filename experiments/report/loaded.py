"""Finished experiments, read from the folders that they wrote."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from experiments.ablation.rows import BASELINE, Row
from phrasescore.documents import read_json
from phrasescore.errors import UserError

Json = dict[str, Any]
REPORT = "report.json"
_NEEDED = ("version", "config", "toolkit", "data", "build", "networks", "rows")


def read_report(folder: Path) -> Json:
    """Return the JSON report of an experiment.

    Raises:
        UserError: there is none, or it is not JSON.
    """
    return read_json(folder / REPORT, "make the report again")


@dataclass(frozen=True)
class LoadedAblation:
    """An ablation that `experiments.ablation` wrote."""

    folder: Path
    report: Json

    @classmethod
    def read(cls, folder: Path) -> LoadedAblation:
        """Read the report of an ablation.

        Raises:
            UserError: there is none, or it is not one of this version.
        """
        path, report = folder / REPORT, read_report(folder)
        try:
            missing = [key for key in _NEEDED if key not in report]
            missing += ["against" for row in report.get("rows", {}).values() if "against" not in row][:1]
        except AttributeError as error:
            raise UserError(f"{path}: is not the report of an ablation ({error}); give an ablation's folder") from error
        if missing or not report["rows"]:
            what = f"`{missing[0]}`" if missing else "rows"
            raise UserError(f"{path}: has no {what}; run `python -m experiments.ablation` of this version again")
        return cls(folder, report)

    @property
    def title(self) -> str:
        """The data set and the languages."""
        settings = self.report["data"]["settings"]
        return f"{settings['name']} {settings['source']}-{settings['target']}"

    @property
    def rows(self) -> dict[str, Json]:
        """The rows by name, as they are in the report."""
        rows: dict[str, Json] = self.report["rows"]
        return rows

    @property
    def seeds(self) -> list[int]:
        """The tuning seeds."""
        return [one["seed"] for one in next(iter(self.rows.values()))["seeds"]]

    @property
    def first(self) -> str:
        """The row that others are compared with: the baseline if there is one."""
        return BASELINE if BASELINE in self.rows else next(iter(self.rows))

    @property
    def best(self) -> str | None:
        """The row with the highest dev BLEU besides that one; the test set has no part in the choice.

        Rows whose lists are rescored are left out, where there are others: their dev BLEU is that of the lists that
        they were tuned on, and flatters.
        """
        others = [name for name in self.rows if name != self.first]
        others = [name for name in others if not Row.parse(name).listed] or others
        return max(others, key=lambda name: float(self.rows[name]["dev_bleu"]["mean"]), default=None)
