"""The report of a comparison: a table in Markdown."""

from __future__ import annotations

from typing import Any


def table(report: dict[str, Any]) -> str:
    """Return the systems as a Markdown table, with what others published beside what was measured here."""
    config, data = report["config"], report["data"]
    searches = [_name(search) for search in config["searches"]]
    head = ["system", "published", "parameters", "training", "perplexity", "free-running", "the tutorial's way"]
    head += [f"BLEU, {search}" for search in searches]
    lines = [f"**{config['title']}**, Multi30k {data['settings']['source']}-{data['settings']['target']}.", ""]
    lines += [f"| {' | '.join(head)} |", "|---" * len(head) + "|"]
    for system in config["systems"]:
        found = report["systems"][system["name"]]
        perplexity = found["perplexity"]
        cells = [
            system["name"],
            ", ".join(f"{key} {value:,}" for key, value in system["published"].items()),
            f"{found['parameters']:,}",
            f"{found['evaluations'][-1]['seconds'] / 60:.1f} min, {found['evaluations'][-1]['epoch']:.1f} passes",
            *(f"{perplexity[key]:.2f}" for key in ("teacher_forced", "free_running", "tutorial")),
            *(f"{one['bleu']:.2f} ({one['seconds_per_sentence']:.3f} s)" for one in found["searches"]),
        ]
        lines.append(f"| {' | '.join(cells)} |")
    lines += ["", f"Test set, per word and end symbol; seconds are a sentence's. Computed on {report['device']}."]
    return "\n".join(lines) + "\n"


def _name(search: dict[str, Any]) -> str:
    return ", ".join(f"{key.replace('-', ' ')} {value}" for key, value in search.items())
