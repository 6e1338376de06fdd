"""The summary of an ablation for docs/results: figures and provenance, without text of the corpus.

`experiments/pages/result.schema.json` describes it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from statistics import fmean, stdev

from experiments.ablation.rows import Row
from experiments.markdown import as_markdown
from experiments.pages.results import rows_of
from experiments.steps import Json
from moses_integration.ini import Weights
from moses_integration.tuning.tunings import spread

MEASURES = ("dev_bleu", "test_bleu", "chrf", "ter")
"""Measures of the translations of each run; the last three are of a test set."""
UNITS = ("pair", "word")
"""Units of losses."""
_MOSES_SCORES = (
    "source given target",
    "lexical, source given target",
    "target given source",
    "lexical, target given source",
)
"""The columns of the original table."""
_IN_CONTEXT = "network, in context"


def summary(report: Json) -> Json:
    """Return the summary of a report."""
    data, config = report["data"], report["config"]
    parts = report["tests"]
    first, *others = parts
    return {
        "kind": "ablation",
        "title": config["title"],
        "corpus": {
            **{key: data["settings"][key] for key in ("name", "source", "target")},
            "sentence_pairs": data["sizes"]["train"]["sentences"],
            "phrase_pairs": (report["build"]["tables"] or {}).get("phrase_pairs"),
            "dev": data["sizes"]["dev"],
            "test": data["sizes"][parts[first]],
            "tests": {test: data["sizes"][parts[test]] for test in others},
        },
        "toolkit": report["toolkit"],
        "signatures": report["signatures"],
        "rows": {name: _row(name, row) for name, row in report["rows"].items()},
        "networks": {name: _network(network) for name, network in report["networks"].items()},
        "phrase_pair_models": {
            name: {"weights_sha256": model["weights_sha256"], **model["config"]["training"]}
            for name, model in report["phrase_pair_models"].items()
        },
        "provenance": {
            "version": report["version"],
            "machine": report["machine"],
            "config": config,
            "sha256": data["sha256"],
        },
    }


def over_runs(runs: Sequence[Json]) -> dict[str, Json]:
    """Return mean and standard deviation of each measure over the runs; a single run has no deviation.

    With several trainings of equally many seeds, `training` is the standard deviation over the trainings of the mean
    over their seeds, and `tuning` is the root mean square of the standard deviations over the seeds of a training.
    """
    found: dict[str, Json] = {}
    for measure in MEASURES:
        mean, deviation = spread([run[measure] for run in runs])
        found[measure] = {"mean": mean, "standard_deviation": deviation if len(runs) > 1 else None}
        trainings: dict[int, list[float]] = {}
        for run in runs:
            trainings.setdefault(run["training"], []).append(run[measure])
        if len(trainings) > 1:
            means, deviations = zip(*map(spread, trainings.values()), strict=True)
            tuning = fmean(one**2 for one in deviations) ** 0.5 if len(runs) > len(trainings) else None
            found[measure] |= {"training": stdev(means), "tuning": tuning}
    return found


def shown(kept: Json) -> str:
    """Format the rows of a summary as a table."""
    table = rows_of(kept)
    kinds = ("dev", "test", "±", "against", "p against", "minutes")
    selection = table.select([column for column in table.columns if column.startswith(kinds)])
    return as_markdown(selection.head(), selection.body())


def _row(name: str, row: Json) -> Json:
    return {
        **_figures(row),
        "tests": {test: _figures(found) for test, found in row["tests"].items()},
        "seconds": row["seconds"],
        "translating": row.get("translating"),
        "weights": dict(_weights(Row.parse(name), [seed["weights"] for seed in row["seeds"]])),
    }


def _figures(found: Json) -> Json:
    """Return the figures of a row on one test set."""
    kept = ("training", "seed", *MEASURES)
    return {
        **{measure: found[measure] for measure in MEASURES if measure in found},
        "seeds": [{key: seed[key] for key in kept if key in seed} for seed in found["seeds"]],
        "against": found["against"],
    }


def _weights(row: Row, runs: Sequence[Weights]) -> Iterator[tuple[str, float]]:
    """Yield the names and means of the tuned weights; `runs` has the weights of each run by label."""
    for label in runs[0]:
        if label.startswith("UnknownWordPenalty"):
            continue
        values = [fmean(values) for values in zip(*(weights[label] for weights in runs), strict=True)]
        if label == "TranslationModel0":
            names = [*_MOSES_SCORES, *(name for column in row.columns() for name in column.scores)]
            names += [_IN_CONTEXT] * (len(values) - len(names))
        else:
            names = [str(number) for number in range(1, len(values) + 1)] if len(values) > 1 else [""]
        for name, value in zip(names, values, strict=True):
            yield f"{label}: {name}" if name else label, value


def loss_of(evaluation: Json, part: str, unit: str) -> float | None:
    """Return the loss in nats per `pair` or `word` on `held_out` or `validation` data; None if it was not measured.

    For sentence networks it is the teacher-forced loss, which is comparable with the loss of other networks.
    """
    losses: Json = evaluation.get(part) or {}
    loss = losses.get(f"per_{unit}", losses.get(f"teacher_forced_per_{unit}"))
    return None if loss is None else float(loss)


def _network(network: Json) -> Json:
    """Return the description and final losses of a network."""
    best, last, config = network["best"], network["evaluations"][-1], network["config"]
    return {
        "parameters": network["parameters"],
        "weights_sha256": network["weights_sha256"],
        "device": config.get("training", {}).get("device"),
        "machine": {key: network["machine"][key] for key in ("cpu", "cores")} if "machine" in network else None,
        "updates": last.get("update"),
        "epochs": last.get("epoch"),
        "seconds": last.get("seconds"),
        **{part: {f"per_{unit}": loss_of(best, part, unit) for unit in UNITS} for part in ("held_out", "validation")},
        "perplexities": [
            {key: one[key] for key in ("perplexity", "weight")} for one in network.get("perplexities", [])
        ],
        # The presets behind the options change between versions.
        "settings": {section: config[section] for section in ("model", "training") if section in config},
    }
