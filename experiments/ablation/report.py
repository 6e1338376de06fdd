"""The report of an ablation as text: tables in Markdown, translations side by side."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import fmean
from typing import Any

from experiments.ablation.rows import BASELINE, Row
from experiments.ablation.weights import weights_by_feature
from phrasescore.text import text_lines

Json = dict[str, Any]


def markdown(report: Json) -> str:
    """Return the whole report: the table of rows, what translating costs, the tuned weights, what it all rests on."""
    return "\n".join(part for part in (table(report), _costs(report), _weights(report), _provenance(report)) if part)


def table(report: Json) -> str:
    """Return the rows as a Markdown table, with what they rest on."""
    data = report["data"]
    sizes, pairs = data["sizes"], (report["build"]["tables"] or {}).get("phrase_pairs")
    lines = [
        f"{data['settings']['name']} {data['settings']['source']}-{data['settings']['target']}: "
        f"{sizes['train']['sentences']:,} sentence pairs, {f'{pairs:,} phrase pairs, ' if pairs else ''}dev "
        f"{sizes['dev']['sentences']:,}, test {sizes['test']['sentences']:,} sentences with "
        f"{sizes['test']['references']} reference(s); toolkit {report['toolkit']}.",
        "",
        "| row | dev BLEU | test BLEU | against the baseline | against | tuning and decoding |",
        "|---|---|---|---|---|---|",
    ]
    for name, row in report["rows"].items():
        against = dict(row["against"])
        baseline = difference(against.pop(BASELINE, None))
        smaller = ", ".join(f"{other}: {difference(compared)}" for other, compared in against.items())
        lines.append(
            f"| {name} | {bleu(row, 'dev')} | {bleu(row, 'test')} | {baseline} | {smaller} "
            f"| {row['seconds'] / 60:.1f} min |"
        )
    seeds = next(iter(report["rows"].values()))["seeds"]
    lines += [
        "",
        f"{seeds_in_words(len(seeds))} {dev_bleu_in_words(report)} Test BLEU is "
        f"sacreBLEU's, {seeds[0]['signature']}. {P_VALUE} {TIMES}",
    ]
    lines += [f"{name}: {_losses(network['best'])}." for name, network in report["networks"].items()]
    for name, network in report["networks"].items():
        lines += [f"{name}, {perplexity_in_words(found)}." for found in network.get("perplexities", [])]
    computed = "; ".join(f"{name} on {where}" for name, where in places(report).items())
    lines += [f"Computed: {computed}."] if computed else []
    return "\n".join(lines) + "\n"


def places(report: Json) -> dict[str, str]:
    """Return where networks were trained and rows translated: a folder may have results from several machines."""
    found = {}
    for name, network in report["networks"].items():
        training, versions = (network.get("config", {}).get(key, {}) for key in ("training", "versions"))
        parts = (training.get("device"), _processor(network), versions and f"torch {versions['torch']}")
        found[name] = ", ".join(filter(None, parts))
    processors = {_processor(one): None for row in report["rows"].values() for one in row["seeds"]}
    return {name: where for name, where in {**found, "rows": "; ".join(filter(None, processors))}.items() if where}


def _processor(result: Json) -> str | None:
    """Return what a result was computed on; None if it does not say, as earlier versions' do not."""
    machine = result.get("machine")
    return machine and f"{machine['cores']} cores of {machine['cpu']}"


P_VALUE = (
    "p: paired approximate randomisation, in which the translations of a sentence by all seeds are exchanged together; "
    "it takes the tuning runs as they are and asks about the choice of sentences."
)
TIMES = (
    "Times are of the clock, all seeds, and those of a row whose n-best lists are rescored count what made the lists; "
    "a neural language model finds in the file of its cache what earlier rows and seeds have asked."
)


def dev_bleu_in_words(report: Json) -> str:
    """Return what dev BLEU is, in a sentence."""
    size = report["data"]["sizes"]["dev"]
    references = size["references"]
    signature = f"nrefs:{references}|case:mixed|eff:no|tok:none|smooth:none"
    ours = f"counted on the prepared text as sacreBLEU does with {signature}"
    part = report["config"]["tuning"].get("sentences")
    dev = f"{part} sentences of the dev set" if part and part < size["sentences"] else "the dev set"
    told = f"Dev BLEU is that of tuning on {dev}, {ours}."
    if report["toolkit"] != "embedded":
        told = f"Dev BLEU is what Moses' mert says of its lists of {dev}, on the prepared text."
    rescored = [name for name in report["rows"] if Row.parse(name).listed]
    if rescored:
        told += (
            f" That of {', '.join(rescored)} is what the weights choose from the lists they were tuned on, {ours}; "
            "a new decoding may have less."
        )
    return told


def perplexity_in_words(found: Json) -> str:
    """Return a report of `phrasescore lm score` as a sentence without its end."""
    values = found["perplexity"]
    change = values["interpolation"] / values["backoff"] - 1
    estimated = ", outputs taken for ln p, so that the perplexities only estimate" if found["unnormalised"] else ""
    than = f"{abs(change):.1%} {'below' if change < 0 else 'above'} the n-gram model's"
    return (
        f"perplexity of the test text: {values['network']:.2f}, of the n-gram model {values['backoff']:.2f}, "
        f"interpolated {values['interpolation']:.2f} ({than}; weight {found['weight']:.2f}, from the dev text); "
        f"{outside_shortlist(found):.2%} of the words are outside the shortlist{estimated}"
    )


def outside_shortlist(found: Json) -> float:
    """Return which share of the words, ends of sentences left out, a report of `phrasescore lm score` has outside."""
    text = found["text"]
    return float(text["outside_shortlist"] / max(text["words"] - text["sentences"], 1))


COSTS = {
    "row": (),
    "test BLEU": (),
    "seconds a sentence": ("cold", "warm", "for rescoring"),
    "times the first row": ("cold", "warm"),
    "n-gram queries": (),
    "served by the cache": ("cold", "warm"),
}
"""The columns of what translating costs, in groups."""


def costs_in_words(report: Json) -> str:
    """Return what was measured, in some sentences."""
    measured = [row["translating"] for row in report["rows"].values() if row.get("translating")]
    sentences = max(one["sentences"] for one in measured)
    elsewhere = sorted({one["device"] for one in measured if not one["device"].startswith("cpu")})
    seconds = (
        f"Seconds by the clock a sentence, networks on {', '.join(elsewhere)}"
        if elsewhere
        else "CPU seconds a sentence"
    )
    return (
        f"{seconds}, on one thread, for {sentences:,} sentences of the test text with the weights of the "
        "first seed; loading is left out. Cold: the cache of the neural language model is empty at first. Warm: the "
        "same sentences once more, as in all decodings of tuning but the first. Queries are for a sentence."
    )


def costs(report: Json) -> list[list[str]]:
    """Return what translating costs in each row that was measured: a text for each column of `COSTS`."""
    rows = {name: row for name, row in report["rows"].items() if row.get("translating")}
    lines = []
    for name, row in rows.items():
        cost, first = row["translating"], next(iter(rows.values()))["translating"]
        passes = [(cost[key], first[key]["seconds"]) for key in ("cold", "warm")]
        queries = cost["cold"]["queries"]
        lines.append(
            [
                name,
                bleu(row, "test"),
                *(f"{one['seconds']:.4f}" for one, _ in passes),
                f"{cost['rescoring']:.4f}" if "rescoring" in cost else "",
                *(f"{one['seconds'] / before:.1f}" for one, before in passes),
                f"{queries:,.0f}" if queries else "",
                *(f"{one['served']:.1%}" if queries else "" for one, _ in passes),
            ]
        )
    return lines


def _costs(report: Json) -> str:
    lines = costs(report)
    head = [", ".join(filter(None, (group, column))) for group, columns in COSTS.items() for column in columns or ("",)]
    return f"{as_markdown(head, lines)}\n{costs_in_words(report)}\n" if lines else ""


def _weights(report: Json) -> str:
    """Return the mean of each tuned weight over the seeds, a column for each row."""
    rows = report["rows"]
    lines = [
        [feature, *(f"{fmean(values[row]):.3f}" if row in values else "" for row in rows)]
        for feature, values in weights_by_feature(rows).items()
    ]
    note = "Tuned weights, means over the seeds; report.json has those of each seed."
    return f"{as_markdown(['feature', *rows], lines)}\n{note}\n" if lines else ""


def _provenance(report: Json) -> str:
    """Return what one needs to do it again, and to see whether one has the same: versions, configuration, hashes.

    Reports of earlier versions lack some of it.
    """
    versions = {"phrasescore": report["version"], **report.get("machine", {}).get("versions", {})}
    hashes = dict(report["data"].get("sha256", {}))
    hashes |= {f"{name}, weights": network.get("weights_sha256") for name, network in report["networks"].items()}
    files = [[name, f"`{digest}`"] for name, digest in hashes.items() if digest]
    said = [
        f"Versions: {', '.join(f'{name} {number}' for name, number in versions.items() if number)}.",
        f"Configuration: `{json.dumps(report['config'], ensure_ascii=False)}`.",
        "",
        as_markdown(["file", "SHA-256"], files),
    ]
    return "\n".join(said)


def as_markdown(head: Sequence[str], body: Sequence[Sequence[str]]) -> str:
    """Return a table."""
    rows = [head, ["---"] * len(head), *body]
    return "".join(f"| {' | '.join(row)} |\n" for row in rows)


def bleu(row: Json, part: str) -> str:
    """Return the BLEU of a row on the text of a part, `dev` or `test`."""
    found = row[f"{part}_bleu"]
    return with_spread(found["mean"], found["standard_deviation"], len(row["seeds"]))


def with_spread(mean: float, standard_deviation: float, seeds: int) -> str:
    """Return a mean, with the standard deviation where there are several seeds."""
    return f"{mean:.2f} ± {standard_deviation:.2f}" if seeds > 1 else f"{mean:.2f}"


def seeds_in_words(count: int) -> str:
    """Return what BLEU is the mean of, in a sentence."""
    return f"Mean ± standard deviation of {count} tuning seeds." if count > 1 else "One tuning seed."


def difference(compared: dict[str, float] | None) -> str:
    """Return a difference of test BLEU and its p-value, nothing without one."""
    return "" if compared is None else f"{compared['difference']:+.2f} (p = {compared['p_value']:.4f})"


def _losses(evaluation: Json) -> str:
    """Return the losses of a network's weights in words."""
    parts = []
    for key, name in (("held_out", "held-out pairs of the table"), ("validation", "the dev set")):
        units = {unit: loss_of(evaluation, key, unit) for unit in ("pair", "word")}
        parts += [f"{loss:.2f} nats per {unit} on {name}" for unit, loss in units.items() if loss is not None][:1]
    return ", ".join(parts)


def loss_of(evaluation: Json, part: str, unit: str) -> float | None:
    """Return the loss, in nats per `pair` or `word`, on `held_out` or `validation` text; None if it was not measured.

    Of a network for sentences it is the teacher-forced one, which is what that of the others is.
    """
    losses: Json = evaluation.get(part) or {}
    loss = losses.get(f"per_{unit}", losses.get(f"teacher_forced_per_{unit}"))
    return None if loss is None else float(loss)


def side_by_side(source: Path, references: Sequence[Path], outputs: Mapping[str, Path], count: int) -> str:
    """Return sentences that two systems, given with their outputs, translate differently, spread over the text."""
    paths = (source, *references, *outputs.values())
    texts = [[line.decode("utf-8", "replace") for line in text_lines(path)] for path in paths]
    names = ["source", *["reference"] * len(references), *outputs]
    width = max(map(len, names))
    different = [rows for rows in zip(*texts, strict=True) if rows[-1] != rows[-2]]
    chosen = different[:: max(1, len(different) // count)][:count]
    blocks = ["\n".join(f"{name:{width}}  {line}" for name, line in zip(names, rows, strict=True)) for rows in chosen]
    return "\n\n".join(blocks) + "\n"
