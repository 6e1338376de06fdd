"""What is kept of an ablation for good: its figures and what they rest on, without a sentence of its corpus.

`experiments/pages/result.schema.json` describes it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import fmean
from typing import Any

from experiments.ablation.weights import weights_by_feature
from moses_integration.tuning.tune import spread

Json = dict[str, Any]

MEASURES = ("dev_bleu", "test_bleu", "chrf", "ter")
"""What is known of the translations with the weights of each seed; the last three of the test text."""
_CORPORA = {"multi30k": "Multi30k", "gettext": "message catalogues", "bible": "Bible"}
_LANGUAGES = {"de": "German", "en": "English", "fr": "French"}
_USUAL_TARGET = "fr"


def summary(report: Json) -> Json:
    """Return what is kept of an ablation's report."""
    weights = weights_by_feature(report["rows"])
    data = report["data"]
    return {
        "kind": "ablation",
        "title": title(data["settings"]),
        "corpus": {
            **{key: data["settings"][key] for key in ("name", "source", "target")},
            "sentence_pairs": data["sizes"]["train"]["sentences"],
            "phrase_pairs": (report["build"]["tables"] or {}).get("phrase_pairs"),
            **{
                part: {key: data["sizes"][part][key] for key in ("sentences", "references")} for part in ("dev", "test")
            },
        },
        "toolkit": report["toolkit"],
        "signatures": report["signatures"],
        "rows": {name: _row(name, row, weights) for name, row in report["rows"].items()},
        "networks": {name: _network(network) for name, network in report["networks"].items()},
        "provenance": {
            "version": report["version"],
            "machine": report["machine"],
            "config": report["config"],
            "sha256": data["sha256"],
        },
    }


def title(settings: Mapping[str, Any]) -> str:
    """Return what a data set is called, from the settings that it was prepared with."""
    name = _CORPORA.get(settings["name"], settings["name"])
    target = settings["target"]
    into = f", into {_LANGUAGES.get(target, target)}" if target != _USUAL_TARGET else ""
    crossed = ", all versions" if settings["name"] == "bible" and not settings["versions"] else ""
    return f"{name}{into}{crossed}"


def over_seeds(seeds: Sequence[Json]) -> dict[str, Json]:
    """Return the mean and the standard deviation of what is known of every seed; one seed has none."""
    found: dict[str, Json] = {}
    for measure in MEASURES:
        if all(measure in seed for seed in seeds):
            mean, deviation = spread([seed[measure] for seed in seeds])
            found[measure] = {"mean": mean, "standard_deviation": deviation if len(seeds) > 1 else None}
    return found


def _row(name: str, row: Json, weights: Mapping[str, Mapping[str, Sequence[float]]]) -> Json:
    kept = ("seed", *MEASURES)
    return {
        **{measure: row[measure] for measure in MEASURES if measure in row},
        "seeds": [{key: seed[key] for key in kept if key in seed} for seed in row["seeds"]],
        "against": row["against"],
        "seconds": row["seconds"],
        "translating": row.get("translating"),
        "weights": {feature: fmean(values[name]) for feature, values in weights.items() if name in values},
    }


def _network(network: Json) -> Json:
    """Return what a network is and how well it predicts; of how it learnt only the end."""
    best, last, config = network["best"], network["evaluations"][-1], network["config"]
    return {
        "parameters": network["parameters"],
        "weights_sha256": network["weights_sha256"],
        "device": config.get("training", {}).get("device"),
        "machine": {key: network["machine"][key] for key in ("cpu", "cores")} if "machine" in network else None,
        "updates": last.get("update"),
        "passes": last.get("epoch"),
        "seconds": last.get("seconds"),
        "held_out": best.get("held_out"),
        "validation": best.get("validation"),
        "perplexities": [
            {key: one[key] for key in ("unnormalised", "perplexity", "weight")}
            for one in network.get("perplexities", [])
        ],
    }
