"""The report of an ablation: a table in Markdown, a plot, translations side by side."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from experiments.ablation.rows import BASELINE
from phrasescore.files import read_lines, write_atomically


def table(report: dict[str, Any]) -> str:
    """Return the rows as a Markdown table, with what they rest on."""
    data = report["data"]
    sizes = data["sizes"]
    pair = f"{data['settings']['name']} {data['settings']['source']}-{data['settings']['target']}"
    lines = [
        f"{pair}: {sizes['train']['sentences']:,} sentence pairs, "
        f"{report['build']['tables']['phrase_pairs']:,} phrase pairs, dev {sizes['dev']['sentences']:,}, test "
        f"{sizes['test']['sentences']:,} sentences with {sizes['test']['references']} reference(s); toolkit "
        f"{report['toolkit']}."
        if report["build"]["tables"]
        else f"{pair}; toolkit {report['toolkit']}.",
        "",
        "| row | dev BLEU | test BLEU | against the baseline | against | tuning and decoding |",
        "|---|---|---|---|---|---|",
    ]
    for name, row in report["rows"].items():
        against = dict(row["against"])
        baseline = _difference(against.pop(BASELINE, None))
        smaller = ", ".join(f"{other}: {_difference(compared)}" for other, compared in against.items())
        lines.append(
            f"| {name} | {_with_spread(row['dev_bleu'])} | {_with_spread(row['test_bleu'])} | {baseline} | {smaller} "
            f"| {row['seconds'] / 60:.1f} min |"
        )
    seeds = next(iter(report["rows"].values()))["seeds"]
    lines += [
        "",
        f"Mean and standard deviation of {len(seeds)} tuning seeds. Dev BLEU is that of tuning, on tokens; test BLEU "
        f"is sacreBLEU's, {seeds[0]['signature']}. p: paired approximate randomisation over all seeds.",
    ]
    lines += [f"{name}: {_losses(network['best'])}." for name, network in report["networks"].items()]
    return "\n".join(lines) + "\n"


def _difference(compared: dict[str, float] | None) -> str:
    return "" if compared is None else f"{compared['difference']:+.2f} (p = {compared['p_value']:.4f})"


def _losses(evaluation: dict[str, Any]) -> str:
    """Return the losses of a network's weights in words."""
    parts = []
    for key, name in (("held_out", "held-out pairs of the table"), ("validation", "the dev set")):
        if evaluation.get(key):
            unit = "pair" if "per_pair" in evaluation[key] else "word"
            parts.append(f"{evaluation[key][f'per_{unit}']:.2f} nats per {unit} on {name}")
    return ", ".join(parts)


def _with_spread(value: dict[str, float]) -> str:
    return f"{value['mean']:.2f} ± {value['standard_deviation']:.2f}"


def plot(report: dict[str, Any], path: Path) -> None:
    """Draw dev and test BLEU of the rows, each seed a point, the mean a line."""
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib import pyplot as plt

    rows = report["rows"]
    figure, axes = plt.subplots(1, 2, figsize=(7, 3.2), sharex=True)
    for axis, part, title in zip(axes, ("dev_bleu", "test_bleu"), ("dev", "test"), strict=True):
        for position, row in enumerate(rows.values()):
            values = [seed[part] for seed in row["seeds"]]
            axis.errorbar(
                position, row[part]["mean"], row[part]["standard_deviation"], fmt="_", markersize=24, capsize=6
            )
            axis.scatter([position] * len(values), values, s=14, color="black", zorder=3)
        axis.set_xticks(range(len(rows)), list(rows))
        axis.set_xlim(-0.6, len(rows) - 0.4)
        axis.set_title(f"{title} BLEU")
    figure.tight_layout()
    figure.savefig(path, dpi=150)
    plt.close(figure)


def side_by_side(source: Path, references: Sequence[Path], outputs: Mapping[str, Path], count: int) -> str:
    """Return sentences that two systems, given with their outputs, translate differently, spread over the text."""
    paths = (source, *references, *outputs.values())
    texts = [[line.decode("utf-8", "replace") for line in read_lines(path)] for path in paths]
    names = ["source", *["reference"] * len(references), *outputs]
    width = max(map(len, names))
    different = [rows for rows in zip(*texts, strict=True) if rows[-1] != rows[-2]]
    chosen = different[:: max(1, len(different) // count)][:count]
    blocks = ["\n".join(f"{name:{width}}  {line}" for name, line in zip(names, rows, strict=True)) for rows in chosen]
    return "\n\n".join(blocks) + "\n"


def write_report(report: dict[str, Any], folder: Path) -> None:
    """Write report.md and bleu.png beside report.json."""
    write_atomically(folder / "report.md", table(report).encode())
    plot(report, folder / "bleu.png")
