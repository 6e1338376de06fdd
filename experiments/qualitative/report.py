"""The report as Markdown."""

from __future__ import annotations

from typing import Any

Json = dict[str, Any]


def markdown(report: Json) -> str:
    """Return the report for people to read."""
    parts = [
        "# What the network has learnt",
        _about(report),
        "## Best targets by table and by network",
        _preferences(report["preferences"]),
        "## Table score against network score",
        _agreement(report["agreement"]),
        "![](scatter.png)",
        "## In numbers",
        _probes(report["probes"]),
        *(["![](noise.png)"] if "noise.png" in report["files"] else []),
        "## Maps",
        "Barnes-Hut t-SNE of the vectors' directions; the regions are the densest places, chosen by the program.",
        *(f"![]({name}.png)" for name in ("words", "phrases") if f"{name}.png" in report["files"]),
    ]
    return "\n\n".join(parts) + "\n"


def _about(report: Json) -> str:
    model, table, computing = (report["provenance"][name] for name in ("model", "table", "computing"))
    return (
        f"Network `{model['folder']}` ({model['direction']}, weights {model['weights_sha256'][:12]}), table "
        f"`{table['file']}` ({table['pairs']:,} pairs, {table['inputs']:,} sources, {table['sha256'][:12]}), "
        f"{computing['device']} {computing['precision']}, seed {report['provenance']['settings']['seed']}. The network "
        "was trained on this table or one like it, as it is when it is used. All logarithms are natural."
    )


def _preferences(rows: Json) -> str:
    parts = []
    for name, sources in rows.items():
        lines = [
            f"Long {name} sources:",
            "",
            "| source (count) | table | network | drawn from the network |",
            "|---|---|---|---|",
        ]
        for row in sources:
            by_table = "<br>".join(f"{_cell(one['target'])} ({one['probability']:.3g})" for one in row["by_table"])
            by_network = "<br>".join(f"{_cell(one['target'])} ({one['ln_p']:.2f})" for one in row["by_network"])
            drawn = "<br>".join(
                f"{_cell(one['target'])} ×{one['times']}{'' if one['in_table'] else ' *'}" for one in row["samples"]
            )
            lines.append(f"| {_cell(row['source'])} ({row['count']:.0f}) | {by_table} | {by_network} | {drawn} |")
        share = sum(row["samples_in_table"] for row in sources) / max(1, len(sources))
        lines += ["", f"`*`: not in the table. {share:.0%} of all samples are in it."]
        parts.append("\n".join(lines))
    return "\n\n".join(parts)


def _agreement(rows: list[Json]) -> str:
    lines = [
        "| source extracted | pairs | Pearson | Spearman | Spearman, network per word |",
        "|---|---|---|---|---|",
    ]
    for row in rows:
        numbers = (row["pearson"], row["spearman"], row["spearman_per_word"])
        cells = " | ".join("constant" if number is None else f"{number:.2f}" for number in numbers)
        lines.append(f"| {row['source_count']} | {row['pairs']:,} | {cells} |")
    return "\n".join(lines)


def _probes(probes: Json) -> str:
    lines = ["| what | figure | beside it |", "|---|---|---|"]
    retrieval, order, wrong, noise = (probes[name] for name in ("retrieval", "order", "wrong_word", "noise"))
    for key, what in (
        ("mean_reciprocal_rank", "phrase with the same target found by phrase vector, mean reciprocal rank"),
        ("mean_reciprocal_rank_of_other_words", "the same among phrases that share less than half of their words"),
    ):
        ranks = retrieval.get(key, {})
        # Which queries there are does not depend on the vectors.
        if ranks.get("phrase_vector") is not None:
            lines.append(
                f"| {what} ({retrieval['phrases']:,} phrases, {retrieval['targets']:,} targets) | "
                f"{ranks['phrase_vector']:.3f} | bag of embeddings {ranks['bag_of_embeddings']:.3f}, random "
                f"{ranks['random']:.3f} |"
            )
    if order["pairs"]:
        for side in ("target", "source"):
            lines.append(
                f"| true {side} above the shuffled one ({order['pairs']:,} pairs) | {order[side]['accuracy']:.1%} | "
                f"{order[side]['mean_margin']:.1f} nats on average |"
            )
        lines.append(
            f"| cosine of a source with itself shuffled | {order['cosine_with_shuffled_source']:.2f} | "
            f"with another source {order['cosine_with_another_source']:.2f}; bag of words 1 |"
        )
    if wrong["pairs"]:
        lengths = ", ".join(f"{one['words']}: {one['accuracy']:.1%}" for one in wrong["by_target_words"])
        lines.append(
            f"| true target above one with a wrong word ({wrong['pairs']:,} pairs) | {wrong['accuracy']:.1%} | "
            f"by target words {lengths} |"
        )
    if "threshold" in noise:
        twice = noise["true_below_extracted_twice"]
        of_twice = "" if twice is None else f", {twice:.1%} of those extracted twice or more"
        lines.append(
            f"| misaligned pairs below the threshold of {noise['threshold']:.2f} nats a symbol ({noise['pairs']:,} "
            f"pairs, half of them to choose it) | {noise['noise_below']:.1%} | true pairs below it "
            f"{noise['true_below']:.1%}{of_twice}; area under the curve {noise['area_under_curve']:.3f} |"
        )
    return "\n".join(lines)


def _cell(text: str) -> str:
    return text.replace("|", "\\|")
