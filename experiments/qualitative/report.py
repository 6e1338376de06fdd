"""The report as Markdown."""

from __future__ import annotations

from typing import Any

from experiments.markdown import as_markdown

Json = dict[str, Any]


def markdown(report: Json) -> str:
    """Return the report for people to read."""
    parts = [
        "# What the network has learnt",
        _about(report["provenance"]),
        "## Best targets by table and by network",
        *(_preferences(name, sources) for name, sources in report["preferences"].items()),
        "## Table score against network score",
        _agreement(report["agreement"]),
        "![](scatter.svg)",
        "## In numbers",
        _probes(**report["probes"]),
        "## Maps",
        "Barnes-Hut t-SNE of the vectors' directions. The most frequent have labels where there is room.",
        *(f"![]({name})" for name in report["files"] if name != "scatter.svg"),
    ]
    return "\n\n".join(part.strip() for part in parts if part) + "\n"


def _about(provenance: Json) -> str:
    model, table, computing = (provenance[name] for name in ("model", "table", "computing"))
    return (
        f"Network `{model['path']}` (weights {model['sha256'][:12]}), table `{table['path']}` "
        f"({table['pairs']:,} pairs, {table['inputs']:,} sources), {computing['device']} {computing['precision']}, "
        f"seed {provenance['settings']['seed']}. The network was trained on this table or one like it, as it is when "
        "it is used. All logarithms are natural."
    )


def _preferences(name: str, sources: list[Json]) -> str:
    rows = []
    for source in sources:
        by_table = [f"{one['target']} ({one['probability']:.3g})" for one in source["by_table"]]
        by_network = [f"{one['target']} ({one['ln_p']:.2f})" for one in source["by_network"]]
        drawn = [f"{one['target']} ×{one['times']}{'' if one['in_table'] else ' *'}" for one in source["samples"]]
        cells = [[f"{source['source']} ({source['count']:.0f})"], by_table, by_network, drawn]
        rows.append(["<br>".join(cell) for cell in cells])
    share = sum(source["samples_in_table"] for source in sources) / max(1, len(sources))
    return (
        f"Long {name} sources:\n\n{as_markdown(['source (count)', 'table', 'network', 'drawn from the network'], rows)}"
        f"\n`*`: not in the table. {share:.0%} of all samples are in it."
    )


def _agreement(bands: list[Json]) -> str:
    head = ["source extracted", "pairs", "Pearson", "Spearman", "Spearman, network per word"]
    return as_markdown(
        head,
        (
            [band["source_count"], f"{band['pairs']:,}"]
            + [
                "constant" if band[name] is None else f"{band[name]:.2f}"
                for name in ("pearson", "spearman", "spearman_per_word")
            ]
            for band in bands
        ),
    )


def _probes(retrieval: Json, order: Json, wrong_word: Json, noise: Json) -> str:
    rows = []
    for key, what in (
        ("mean_reciprocal_rank", "phrase with the same target found by phrase vector, mean reciprocal rank"),
        ("mean_reciprocal_rank_of_other_words", "the same among phrases that share less than half of their words"),
    ):
        ranks = retrieval.get(key, {})
        # Which queries there are does not depend on the vectors.
        if ranks.get("phrase_vector") is not None:
            beside = f"bag of embeddings {ranks['bag_of_embeddings']:.3f}, random {ranks['random']:.3f}"
            what = f"{what} ({retrieval['phrases']:,} phrases, {retrieval['targets']:,} targets)"
            rows.append([what, f"{ranks['phrase_vector']:.3f}", beside])
    if order["pairs"]:
        for side in ("target", "source"):
            what = f"true {side} above the shuffled one ({order['pairs']:,} pairs)"
            beside = f"{order[side]['mean_margin']:.1f} nats on average"
            rows.append([what, f"{order[side]['accuracy']:.1%}", beside])
        beside = f"with another source {order['cosine_with_another_source']:.2f}; bag of words 1"
        rows.append(["cosine of a source with itself shuffled", f"{order['cosine_with_shuffled_source']:.2f}", beside])
    if wrong_word["pairs"]:
        what = f"true target above one with a wrong word ({wrong_word['pairs']:,} pairs)"
        lengths = ", ".join(f"{one['words']}: {one['accuracy']:.1%}" for one in wrong_word["by_target_words"])
        rows.append([what, f"{wrong_word['accuracy']:.1%}", f"by target words {lengths}"])
    if "threshold" in noise:
        twice = noise["true_below_extracted_twice"]
        of_twice = "" if twice is None else f", {twice:.1%} of those extracted twice or more"
        what = (
            f"misaligned pairs below the threshold of {noise['threshold']:.2f} nats a symbol "
            f"({noise['pairs']:,} pairs, half of them to choose it)"
        )
        beside = f"true pairs below it {noise['true_below']:.1%}{of_twice}"
        beside += f"; area under the curve {noise['area_under_curve']:.3f}"
        rows.append([what, f"{noise['noise_below']:.1%}", beside])
    return as_markdown(["what", "figure", "beside it"], rows)
