"""The report of a comparison: report.json, and a table in Markdown."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from experiments.markdown import as_markdown
from phrasescore.files import write_atomically, write_json

Json = dict[str, Any]


def write_report(report: Json, folder: Path) -> None:
    """Write a report, which may lack systems that are yet to be measured."""
    write_json(folder / "report.json", report)
    write_atomically(folder / "report.md", table(report).encode())


def table(report: Json) -> str:
    """Return the systems as a Markdown table, with what others published beside what was measured here."""
    task = report["config"]["task"]
    is_of_sentences = task["learns_from"] == "sentences"
    entries = [system for system in report["config"]["systems"] if system["name"] in report["systems"]]
    rows = [_row(report, entry, _of_sentences if is_of_sentences else _of_phrases) for entry in entries]
    # Without the columns that have nothing in them.
    head = [name for name in rows[0] if any(row[name] for row in rows)]
    note = (
        "Perplexities are those of the test set, per word and end symbol. In brackets CPU seconds, and seconds by the "
        "clock, that a sentence takes, reading left out. Changes of BLEU are those of the last search."
        if is_of_sentences
        else "Losses are nats per pair, and per word and end symbol of validation pairs."
    )
    languages = f", Multi30k {task['source']}-{task['target']}" if is_of_sentences else ""
    body = as_markdown(head, ([row[name] for name in head] for row in rows))
    return f"**{task['title']}**{languages}.\n\n{body}\n{note} {_machines(report)}\n"


def _row(report: Json, entry: Json, measured: Callable[[Json, Json, Json], dict[str, str]]) -> dict[str, str]:
    found = report["systems"][entry["name"]]
    last = found["evaluations"][-1]
    return {
        "system": entry["name"],
        "extends": entry["base"] or "",
        "parameters": f"{found['parameters']:,}",
        "training": f"{last['seconds'] / 60:.1f} min, {last['update']:,} updates, {last['epoch']:.2f} passes",
        **measured(report, entry, found),
    }


def _of_phrases(report: Json, entry: Json, found: Json) -> dict[str, str]:
    best, scoring = found["best"], found["scoring"]
    return {
        "held-out": f"{best['held_out']['per_pair']:.2f}",
        "validation": f"{best['validation']['per_pair']:.2f}",
        "per word": f"{best['validation']['per_word']:.2f}",
        "scoring, pairs/CPU second": f"{scoring['pairs'] / scoring['cpu_seconds']:,.0f}",
        "pairs/second": f"{scoring['pairs'] / scoring['seconds']:,.0f}",
    }


def _of_sentences(report: Json, entry: Json, found: Json) -> dict[str, str]:
    names = {"perplexity": "teacher_forced", "free-running": "free_running", "the tutorial's way": "tutorial"}
    return {
        "published": ", ".join(f"{key} {value:,}" for key, value in entry["published"].items()),
        **{name: f"{found['perplexity'][key]:.2f}" for name, key in names.items()},
        **{f"BLEU, {_name(one['search'])}": f"{one['bleu']:.2f} ({_seconds(one)})" for one in found["searches"]},
        **_changes(report, entry),
    }


def _changes(report: Json, entry: Json) -> dict[str, str]:
    """Return the changes against the system that this one extends, those published, and whether they agree."""
    changes, published, agree = {"perplexity": "", "bleu": ""}, [], []
    for base in [one for one in report["config"]["systems"] if one["name"] == entry["base"]]:
        for key in changes:
            now, then = (_measure(report["systems"][one["name"]], key) for one in (entry, base))
            if now is not None and then is not None:
                changes[key] = f"{now - then:+.2f}"
            if key in entry["published"] and key in base["published"]:
                change = entry["published"][key] - base["published"][key]
                published.append(f"{key} {change:+.1f}")
                if changes[key]:
                    agree.append(f"{key} {'yes' if float(changes[key]) * change > 0 else 'no'}")
    return {
        "change of perplexity": changes["perplexity"],
        "of BLEU": changes["bleu"],
        "change published": ", ".join(published),
        "same direction": ", ".join(agree),
    }


def _measure(found: Json, key: str) -> float | None:
    if key == "perplexity":
        return float(found["perplexity"]["teacher_forced"])
    return float(found["searches"][-1]["bleu"]) if found["searches"] else None


def _seconds(search: Json) -> str:
    return f"{search['cpu_seconds'] / search['sentences']:.4f}, {search['seconds'] / search['sentences']:.4f}"


def _machines(report: Json) -> str:
    """Return where the networks were trained, in a sentence."""
    places = dict.fromkeys(
        f"{one['config']['training']['device']}, {one['machine']['cores']} cores of {one['machine']['cpu']}, "
        f"torch {one['config']['versions']['torch']}"
        for one in report["systems"].values()
    )
    beside = f", {report['processes']} systems at once" if report["processes"] > 1 else ""
    return f"Trained on {'; '.join(places)}{beside}."


def _name(search: Json) -> str:
    return ", ".join(f"{key.replace('-', ' ')} {value}" for key, value in search.items())
