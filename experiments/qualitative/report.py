"""Format the report as Markdown."""

from __future__ import annotations

from experiments.markdown import as_markdown, figures
from experiments.steps import Json

_PROBES = """\
Retrieval: how well vectors find the phrases with the same most frequent target, among all and among those that share
less than half of their words. Order and wrong word: how often a true pair scores above one with shuffled words, or with
a wrong word of similar frequency; margins are in nats. Noise: how many misaligned and how many true pairs score below a
threshold in nats a symbol, which half of the pairs choose and the other half measure.
"""


def markdown(report: Json) -> str:
    """Return the report as Markdown."""
    parts = [
        "# What the network has learnt",
        _about(report["provenance"]),
        "## Table score against network score",
        as_markdown(["what", "figure"], figures(report["agreement"])),
        "![](scatter.svg)",
        "## In numbers",
        _PROBES,
        as_markdown(["what", "figure"], figures(report["probes"])),
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
