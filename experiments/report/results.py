"""BLEU of the rows, what they gain, and the weights that tuning gave them."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import fmean, stdev

from experiments.ablation import report
from experiments.ablation.rows import PARTS
from experiments.ablation.weights import weights_by_feature
from experiments.report.charts import Track, charts, dot_plot
from experiments.report.loaded import Json, LoadedAblation
from experiments.report.markup import Html, definitions, element, heading, join, table

SIGNIFICANT = 0.05


def results(ablation: LoadedAblation) -> Html:
    """Return the table of BLEU, the plot, and what the parts of the rows are."""
    return join([_facts(ablation), _table(ablation), _notes(ablation), _plot(ablation), _parts(ablation)])


def overview(ablations: Sequence[LoadedAblation], links: Sequence[tuple[str, str]]) -> Html:
    """Return one line for each ablation, with a link (text, anchor): its baseline, and its best row by dev BLEU."""
    head = ["data set", "sentence pairs", "baseline, test BLEU", "best row by dev BLEU", "test BLEU", "gain", "p"]
    body = []
    for ablation, (title, anchor) in zip(ablations, links, strict=True):
        best = ablation.best
        name = element("a", title, href=f"#{anchor}")
        size = f"{ablation.report['data']['sizes']['train']['sentences']:,}"
        cells = [name, size, report.bleu(ablation.rows[ablation.first], "test")]
        if best is None:
            body.append([*cells, "", "", "", ""])
        else:
            row = ablation.rows[best]
            difference = row["against"].get(ablation.first)
            body.append([*cells, best, report.bleu(row, "test"), *_difference(difference)])
    return table([head], body, "All data sets")


def _facts(ablation: LoadedAblation) -> Html:
    found = ablation.report
    sizes, tables = found["data"]["sizes"], found["build"].get("tables") or {}
    facts = [
        ("Training", f"{sizes['train']['sentences']:,} sentence pairs"),
        ("Dev", _text_size(sizes["dev"])),
        ("Test", _text_size(sizes["test"])),
    ]
    if "phrase_pairs" in tables:
        facts.append(("Phrase table", f"{tables['phrase_pairs']:,} phrase pairs"))
    facts += [("Toolkit", found["toolkit"]), ("Tuning seeds", ", ".join(map(str, ablation.seeds)))]
    return element("div", definitions(facts), class_="facts")


def _text_size(size: Json) -> str:
    count = size["references"]
    return f"{size['sentences']:,} sentences, {count} reference{'s' if count > 1 else ''}"


def _table(ablation: LoadedAblation) -> Html:
    extend = any(row["against"].keys() - {ablation.first} for row in ablation.rows.values())
    groups = [heading(name, rows=2) for name in ("row", "dev BLEU", "test BLEU")]
    groups.append(heading(f"against {ablation.first}", columns=2))
    groups += [heading("against the rows it extends", columns=3)] if extend else []
    head: list[list[str]] = [
        [*groups, heading("minutes", rows=2)],
        ["gain", "p", *([heading("row", of_text=True), "gain", "p"] if extend else [])],
    ]
    body = []
    for name, row in ablation.rows.items():
        against = dict(row["against"])
        cells = [name, report.bleu(row, "dev"), report.bleu(row, "test")]
        cells += _difference(against.pop(ablation.first, None))
        if extend:
            cells += _differences(against)
        body.append([*cells, f"{row['seconds'] / 60:.1f}"])
    return table(head, body, f"BLEU on {ablation.title}")


def _difference(compared: Json | None) -> list[str]:
    """Return the cells of a difference and its p-value."""
    if compared is None:
        return ["", ""]
    return [element("td", content, class_=_style(compared)) for content in _texts(compared)]


def _style(compared: Json) -> str | None:
    return "significant" if compared["p_value"] < SIGNIFICANT else None


def _texts(compared: Json) -> tuple[str, str]:
    return f"{compared['difference']:+.2f}", f"{compared['p_value']:.4f}"


def _differences(against: dict[str, Json]) -> list[str]:
    """Return the cells of the differences from some rows, one below the other."""
    compared = list(against.values())
    figures = [
        [element("div", figure, class_=_style(one)) for one, figure in zip(compared, column, strict=True)]
        for column in zip(*map(_texts, compared), strict=True)
    ] or [[], []]
    names = element("td", *(element("div", other) for other in against), class_="text")
    return [names, *(element("td", *column) for column in figures)]


def _notes(ablation: LoadedAblation) -> Html:
    seeds = ablation.rows[ablation.first]["seeds"]
    return element(
        "p",
        f"{report.seeds_in_words(len(seeds))} {report.dev_bleu_in_words(ablation.report)} Test BLEU is sacreBLEU’s (",
        element("code", seeds[0]["signature"]),
        f"). {report.P_VALUE} Bold: p < {SIGNIFICANT:g}. Minutes: tuning and decoding. {report.TIMES}",
        class_="note",
    )


def _plot(ablation: LoadedAblation) -> Html:
    figures = []
    # A line goes through the first track.
    rows = dict(sorted(ablation.rows.items(), key=lambda row: row[0] != ablation.first))
    for part, title in (("dev", "Dev"), ("test", "Test")):
        key = f"{part}_bleu"
        tracks = [
            Track(name, [one[key] for one in row["seeds"]], row[key]["mean"], row[key]["standard_deviation"] or 0.0)
            for name, row in rows.items()
        ]
        values = "; ".join(f"{name} {report.bleu(row, part)}" for name, row in rows.items())
        figures.append(dot_plot(title, tracks, "BLEU", f"{title} BLEU on {ablation.title}: {values}"))
    caption = "Each point is a seed, the upright bar the mean, the line the standard deviation to both sides."
    return join([charts(figures), element("p", caption, class_="note")])


def costs(ablation: LoadedAblation) -> Html:
    """Return what translating costs in each row; nothing if it was not measured."""
    body = report.costs(ablation.report)
    if not body:
        return Html()
    groups = [
        heading(name, columns=len(columns)) if columns else heading(name, rows=2)
        for name, columns in report.COSTS.items()
    ]
    names = [column for columns in report.COSTS.values() for column in columns]
    shown = table([groups, names], body, f"Translating {ablation.title}")
    return join([shown, element("p", report.costs_in_words(ablation.report), class_="note")])


def _parts(ablation: LoadedAblation) -> Html:
    used = [part for part in PARTS if any(part in name.split("+") for name in ablation.rows)]
    return element("div", definitions((part, PARTS[part]) for part in used), class_="parts") if used else Html()


def weights(ablation: LoadedAblation) -> Html:
    """Return the table of the tuned weights of every row."""
    found = weights_by_feature(ablation.rows)
    if not found:
        return Html()
    largest = max(abs(fmean(values)) for by_row in found.values() for values in by_row.values()) or 1.0
    body = [
        [feature, *(_weight(by_row.get(row), largest) for row in ablation.rows)] for feature, by_row in found.items()
    ]
    note = (
        "Mean over the seeds, ± standard deviation; the sum of the absolute weights of a row is 1. A bar is as long as "
        "the weight is large, from the left if it is positive, from the right if it is negative. Weights that are not "
        "tuned are left out."
    )
    shown = table([["feature", *ablation.rows]], body, f"Feature weights on {ablation.title}")
    return join([shown, element("p", note, class_="note")])


def _weight(values: list[float] | None, largest: float) -> Html:
    if values is None:
        return element("td", "")
    mean = fmean(values)
    deviation = f" ± {stdev(values):.3f}" if len(values) > 1 else ""
    width = f"width:{min(1.0, abs(mean) / largest):.0%}"
    bar = element("span", class_="bar" if mean >= 0 else "bar negative", style=width)
    return element("td", f"{mean:.3f}{deviation}", bar, class_="weight")
