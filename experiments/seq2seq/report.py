"""The report of a comparison: report.json, and a table in Markdown."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from experiments.ablation.summary import bleu, difference
from experiments.markdown import as_markdown
from phrasescore.files import write_atomically, write_json

Json = dict[str, Any]

REPORT, TABLE = "report.json", "report.md"


def write_report(report: Json, folder: Path) -> None:
    """Write a report, which may lack systems that are yet to be measured."""
    write_json(folder / REPORT, report)
    write_atomically(folder / TABLE, table(report).encode())


def table(report: Json) -> str:
    """Return the systems as a Markdown table, with what others published beside what was measured here."""
    return _of_phrases(report) if report["config"]["phrases"] else _of_sentences(report)


def _of_sentences(report: Json) -> str:
    config, data = report["config"], report["data"]
    head = ["system", "extends", "published", "parameters", "training"]
    head += ["perplexity", "free-running", "the tutorial's way"]
    head += [f"BLEU, {_name(search)}" for search in config["searches"]]
    head += ["change of perplexity", "of BLEU", "published", "same direction"]
    rows = []
    for system in _measured(report):
        found = report["systems"][system["name"]]
        rows.append(
            [
                system["name"],
                system["base"] or "",
                ", ".join(f"{key} {value:,}" for key, value in system["published"].items()),
                f"{found['parameters']:,}",
                f"{found['evaluations'][-1]['seconds'] / 60:.1f} min, {found['evaluations'][-1]['epoch']:.1f} passes",
                *(f"{found['perplexity'][key]:.2f}" for key in ("teacher_forced", "free_running", "tutorial")),
                *(f"{one['bleu']:.2f} ({_seconds(one)})" for one in found["searches"]),
                *_changes(report, system),
            ]
        )
    note = (
        "Perplexities are those of the test set, per word and end symbol. In brackets CPU seconds, and seconds by the "
        "clock, that a sentence takes, reading left out. Changes of BLEU are those of the last search."
    )
    languages = f"Multi30k {data['settings']['source']}-{data['settings']['target']}"
    return f"**{config['title']}**, {languages}.\n\n{_without_empty_columns(head, rows)}\n{note} {_machines(report)}\n"


def _of_phrases(report: Json) -> str:
    section = report["config"]["phrases"]
    head = ["system", "extends", "parameters", "updates", "passes", "held-out", "validation", "per word"]
    head += ["scoring, pairs/CPU second", "pairs/second", "test BLEU of +RNN", "against the baseline"]
    rows = []
    for system in _measured(report):
        found = report["systems"][system["name"]]
        best, scoring = found["best"], found["scoring"]
        rows.append(
            [
                system["name"],
                system["base"] or "",
                f"{found['parameters']:,}",
                f"{found['updates']:,}",
                f"{found['evaluations'][-1]['epoch']:.2f}",
                f"{best['held_out']['per_pair']:.2f}",
                f"{best['validation']['per_pair']:.2f}",
                f"{best['validation']['per_word']:.2f}",
                f"{scoring['pairs'] / scoring['cpu_seconds']:,.0f}",
                f"{scoring['pairs'] / scoring['seconds']:,.0f}",
                *_bleu(found.get("bleu")),
            ]
        )
    note = (
        f"Each was trained for {section['cpu_minutes']:g} minutes of all threads (by the clock on a GPU), as many "
        "updates as the time of one allows; losses are nats per pair, and per word and end symbol of validation pairs."
    )
    return f"**{report['config']['title']}.**\n\n{_without_empty_columns(head, rows)}\n{note} {_machines(report)}\n"


def _measured(report: Json) -> list[Json]:
    """Return the systems that are measured, as the configuration has them."""
    return [system for system in report["config"]["systems"] if system["name"] in report["systems"]]


def _changes(report: Json, system: Json) -> list[str]:
    """Return the changes against the system that this one extends, those published, and whether they agree."""
    if system["base"] is None:
        return [""] * 4
    before = next(one for one in report["config"]["systems"] if one["name"] == system["base"])
    ours, published = {}, {}
    for key, measure in (("perplexity", _perplexity), ("bleu", _last_bleu)):
        now, then = (measure(report["systems"][one["name"]]) for one in (system, before))
        if now is not None and then is not None:
            ours[key] = now - then
        if key in system["published"] and key in before["published"]:
            published[key] = system["published"][key] - before["published"][key]
    return [
        *(f"{ours[key]:+.2f}" if key in ours else "" for key in ("perplexity", "bleu")),
        ", ".join(f"{key} {change:+.1f}" for key, change in published.items()),
        ", ".join(
            f"{key} {'yes' if ours[key] * change > 0 else 'no'}" for key, change in published.items() if key in ours
        ),
    ]


def _perplexity(found: Json) -> float | None:
    return float(found["perplexity"]["teacher_forced"])


def _last_bleu(found: Json) -> float | None:
    return float(found["searches"][-1]["bleu"]) if found["searches"] else None


def _seconds(search: Json) -> str:
    return f"{search['cpu_seconds'] / search['sentences']:.4f}, {search['seconds'] / search['sentences']:.4f}"


def _bleu(rows: Json | None) -> list[str]:
    if rows is None:
        return ["", ""]
    return [bleu(rows["+RNN"], "test"), difference(rows["+RNN"]["against"]["baseline"])]


def _machines(report: Json) -> str:
    """Return where the networks were trained, in a sentence."""
    found = report["systems"].values()
    places = dict.fromkeys(
        f"{one['config']['training']['device']}, {one['machine']['cores']} cores of {one['machine']['cpu']}, "
        f"torch {one['config']['versions']['torch']}"
        for one in found
    )
    beside = f", {report['processes']} systems at once" if report["processes"] > 1 else ""
    return f"Trained on {'; '.join(places)}{beside}."


def _name(search: Json) -> str:
    return ", ".join(f"{key.replace('-', ' ')} {value}" for key, value in search.items())


def _without_empty_columns(head: Sequence[str], body: Sequence[Sequence[str]]) -> str:
    """Return a table without the columns that have nothing in them."""
    columns = [column for column in zip(head, *body, strict=True) if any(column[1:])]
    first, *others = zip(*columns, strict=True)
    return as_markdown(first, others)
