"""The tuned weights of a row, by the names of features and of the columns of its phrase table."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from experiments.ablation.rows import Row
from moses_integration.ini import Weights

_MOSES_SCORES = (
    "source given target",
    "lexical, source given target",
    "target given source",
    "lexical, target given source",
)
"""The columns that the table has before networks append theirs."""
_COUNTED = {
    "target": "unknown target words",
    "source": "unknown source words",
    "both": "unknown words of both sides",
}
"""The count of words that a network does not know, by whose it is."""
_COLUMN_NAMES = {"rnn": "network", "ensemble": "network", "reverse": "network, source given target"}


def weights_by_feature(rows: Mapping[str, Mapping[str, Any]]) -> dict[str, dict[str, list[float]]]:
    """Return the tuned weights of the rows of a report: for each its values, one for each seed, by row."""
    found: defaultdict[str, dict[str, list[float]]] = defaultdict(dict)
    for row, summary in rows.items():
        for feature, values in _tuned_weights(row, [seed["weights"] for seed in summary["seeds"]]):
            found[feature][row] = values
    return found


def _tuned_weights(row: str, seeds: Sequence[Weights]) -> Iterator[tuple[str, list[float]]]:
    """Yield the name of each tuned weight with its value for each seed.

    Args:
        row: its name.
        seeds: for each seed the weights by label.
    """
    for label in seeds[0]:
        if label.startswith("UnknownWordPenalty"):
            continue
        values = [weights[label] for weights in seeds]
        names = [f"{label}: {name}" for name in _table_columns(row)] if label == "TranslationModel0" else []
        for number, of_seeds in enumerate(zip(*values, strict=True)):
            several = len(values[0]) > 1
            name = names[number] if number < len(names) else f"{label}: {number + 1}" if several else label
            yield name, list(of_seeds)


def _table_columns(row: str) -> list[str]:
    """Return what the columns of a row's phrase table are."""
    names = list(_MOSES_SCORES)
    for column in Row.parse(row).columns():
        names.append(_COLUMN_NAMES.get(column.name.split("-")[0], column.name))
        if column.width > 1:
            names.append(_COUNTED[column.options[-1]])
    return names
