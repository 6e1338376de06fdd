"""The report of an ablation: a table in Markdown, a plot, translations side by side."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from experiments.ablation.config import BASELINE
from phrasescore.files import read_lines, write_atomically


def table(report: dict[str, Any]) -> str:
    """Return the rows as a Markdown table, with what they rest on."""
    data, network = report["data"], report["network"]
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
        "| row | dev BLEU | test BLEU | against the baseline | p | tuning and decoding |",
        "|---|---|---|---|---|---|",
    ]
    baseline = report["rows"].get(BASELINE)
    for name, row in report["rows"].items():
        difference = p_value = ""
        if baseline is not None and name != BASELINE:
            difference = f"{row['test_bleu']['mean'] - baseline['test_bleu']['mean']:+.2f}"
            p_value = f"{row['p_value']:.4f}"
        lines.append(
            f"| {name} | {_with_spread(row['dev_bleu'])} | {_with_spread(row['test_bleu'])} | {difference} | {p_value} "
            f"| {row['seconds'] / 60:.1f} min |"
        )
    seeds = next(iter(report["rows"].values()))["seeds"]
    lines += [
        "",
        f"Mean and standard deviation of {len(seeds)} tuning seeds. Dev BLEU is that of tuning, on tokens; test BLEU "
        f"is sacreBLEU's, {seeds[0]['signature']}. p: paired approximate randomisation over all seeds.",
    ]
    if network:
        held_out = network["best"]["held_out"]
        lines.append(f"The network's held-out loss: {held_out['per_pair']:.2f} nats per pair.")
    return "\n".join(lines) + "\n"


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


def side_by_side(source: Path, references: Sequence[Path], baseline: Path, other: Path, count: int) -> str:
    """Return sentences that two systems translate differently, spread over the text."""
    texts = [
        [line.decode("utf-8", "replace") for line in read_lines(p)] for p in (source, *references, baseline, other)
    ]
    different = [rows for rows in zip(*texts, strict=True) if rows[-1] != rows[-2]]
    chosen = different[:: max(1, len(different) // count)][:count]
    blocks = []
    for source_line, *reference_lines, baseline_line, other_line in chosen:
        blocks.append(
            "\n".join(
                [
                    f"source     {source_line}",
                    *(f"reference  {line}" for line in reference_lines),
                    f"baseline   {baseline_line}",
                    f"+RNN       {other_line}",
                ]
            )
        )
    return "\n\n".join(blocks) + "\n"


def write_report(report: dict[str, Any], folder: Path) -> None:
    """Write report.md and bleu.png beside report.json."""
    write_atomically(folder / "report.md", table(report).encode())
    plot(report, folder / "bleu.png")
