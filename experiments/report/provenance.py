"""What an ablation rests on: everything one needs to do it again."""

from __future__ import annotations

import json

from experiments.ablation.report import places
from experiments.report.loaded import Json, LoadedAblation
from experiments.report.markup import Html, definitions, element, join


def provenance(ablation: LoadedAblation) -> Html:
    """Return versions, machine, seeds, hashes and the whole configuration, behind a line to click on."""
    report = ablation.report
    facts = [("phrasescore", report["version"]), ("toolkit", report["toolkit"])]
    facts += [(name, _plain(value)) for name, value in report.get("machine", {}).items()]
    facts += [(f"{name} computed on", where) for name, where in places(report).items()]
    facts.append(("tuning seeds", ", ".join(map(str, ablation.seeds))))
    facts.append(("BLEU", ablation.rows[ablation.first]["seeds"][0]["signature"]))
    facts.append(("text", _plain(report["data"].get("origin", {}).get("what", ""))))
    parts = [definitions((name, value) for name, value in facts if value)]
    for name in ("config", "data", "build", "tables"):
        if name in report:
            parts.append(_as_json(name, report[name]))
    for name, network in report["networks"].items():
        kept = {
            key: network[key]
            for key in ("weights_sha256", "parameters", "machine", "config", "best", "perplexities")
            if key in network
        }
        parts.append(_as_json(f"network {name}", kept))
    return element("details", element("summary", f"Provenance of {ablation.title}"), join(parts))


def _plain(value: object) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{key} {item}" for key, item in value.items())
    return "" if value is None else str(value)


def _as_json(name: str, value: Json) -> Html:
    content = element("code", json.dumps(value, indent=1, ensure_ascii=False))
    return element("details", element("summary", name), element("pre", content, tabindex="0"))
