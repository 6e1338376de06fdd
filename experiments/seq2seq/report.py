"""Write a comparison: report.json is complete, summary.json is for docs/results, report.md is a table."""

from __future__ import annotations

from pathlib import Path
from typing import TypeAlias

from experiments.markdown import as_markdown
from experiments.pages.results import table_of
from experiments.steps import Json
from phrasescore.files import write_atomically, write_json

Cells: TypeAlias = "dict[str, tuple[str, float | str | None]]"
"""By column: a format, as the tables of `docs/results` have it, and a figure."""

_PERPLEXITIES = {"perplexity": "teacher_forced", "free-running": "free_running", "tutorial's perplexity": "tutorial"}
_NOTE = (
    "Perplexities are of the test set, per word and end symbol. Losses are nats per pair, and per word and end symbol "
    "of validation pairs."
)


def write_report(report: Json, folder: Path) -> None:
    """Write a report, which may be incomplete."""
    write_json(folder / "report.json", report)
    write_json(folder / "summary.json", summary(report))
    write_atomically(folder / "report.md", markdown(report).encode())


def summary(report: Json) -> Json:
    """Return the content of a file of `docs/results`, with published figures next to measured ones."""
    config = report["config"]
    rows = [_row(report, system) for system in config["systems"] if system["name"] in report["systems"]]
    networks = {
        name: {
            **{key: found[key] for key in ("version", "weights_sha256", "machine")},
            "device": found["config"]["training"]["device"],
        }
        for name, found in report["systems"].items()
    }
    return {
        "kind": "table",
        "title": config["task"]["title"],
        "columns": {name: form for name, (form, _) in rows[0].items()},
        "rows": [[figure for _, figure in row.values()] for row in rows],
        "provenance": {
            "config": config,
            "sha256": report["sha256"],
            "networks": networks,
        },
    }


def markdown(report: Json) -> str:
    """Return the table as Markdown, without empty columns."""
    table = table_of(summary(report))
    shown = table.select(list(table.columns))
    return f"**{table.title}**\n\n{as_markdown(shown.head(), shown.body())}\n{_NOTE}\n"


def _row(report: Json, system: Json) -> Cells:
    found = report["systems"][system["name"]]
    last = found["evaluations"][-1]
    return {
        "system": ("", system["name"]),
        "extends": ("", system["base"]),
        "parameters": (",d", found["parameters"]),
        "minutes": (".1f", last["seconds"] / 60),
        "updates": (",d", last["update"]),
        "epochs": (".2f", last["epoch"]),
        **(_of_sentences(report, system) if "perplexity" in found else _of_phrases(found)),
    }


def _of_phrases(found: Json) -> Cells:
    best, scoring = found["best"], found["scoring"]
    return {
        "held-out": (".2f", best["held_out"]["per_pair"]),
        "validation": (".2f", best["validation"]["per_pair"]),
        "per word": (".2f", best["validation"]["per_word"]),
        "scoring, pairs/CPU second": (",.0f", scoring["pairs"] / scoring["cpu_seconds"]),
        "pairs/second": (",.0f", scoring["pairs"] / scoring["seconds"]),
    }


def _of_sentences(report: Json, system: Json) -> Cells:
    found = report["systems"][system["name"]]
    published = dict.fromkeys(key for one in report["config"]["systems"] for key in one["published"])
    cells: Cells = {f"{key}, published": (",", system["published"].get(key)) for key in published}
    cells |= {name: (".2f", found["perplexity"][key]) for name, key in _PERPLEXITIES.items()}
    for one in found["searches"]:
        name = ", ".join(f"{key.replace('-', ' ')} {value}" for key, value in one["search"].items())
        measured = {test: cell for test, cell in one.items() if test != "search"}
        cells |= {f"BLEU of {test}, {name}": (".2f", cell["bleu"]) for test, cell in measured.items()}
        # Of the first test set: the dev set comes before it.
        cells[f"CPU seconds a sentence, {name}"] = (".3f", list(measured.values())[1]["cpu_seconds"])
    return cells
