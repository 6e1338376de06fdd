"""Which targets the table prefers and which the network, and what the network says unasked (Tables 2 and 3)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from experiments.qualitative.settings import Settings
from phrasescore.analysis.loaded_table import LoadedTable
from phrasescore.analysis.sampling import sample_targets
from phrasescore.analysis.word_scores import pair_scores
from phrasescore.scoring.engine import Scorer

_LONG = 4
"""Words of a long phrase: more than three, as in the paper."""
_SHOWN = 3
_RARE = 5
"""A rare source was extracted at most so often."""
_FREQUENT_SHARE = 0.002
_SAMPLES_SHOWN = 5

Json = dict[str, Any]


def preferences(scorer: Scorer, table: LoadedTable, settings: Settings) -> Json:
    """Return the best targets and the samples of long frequent and of long rare sources."""
    random = np.random.default_rng([settings.seed, 1])
    rows = {}
    for name, sources in choose_sources(table).items():
        drawn = random.permutation(sources)[: settings.sources]
        rows[name] = [_row(scorer, table, int(source), settings) for source in drawn]
    return rows


def choose_sources(table: LoadedTable) -> dict[str, Sequence[int]]:
    """Return the sources to draw from: more than three words and three targets or more, frequent or rare."""
    lengths_S = np.array([phrase.count(b" ") + 1 for phrase in table.inputs])
    counts_S, targets_S = table.input_count_S, np.diff(table.offsets)
    usable = np.flatnonzero((lengths_S >= _LONG) & (targets_S >= _SHOWN))
    by_count = usable[np.argsort(-counts_S[usable], kind="stable")]
    most = by_count[: max(50, round(_FREQUENT_SHARE * len(by_count)))]
    # In a small table the most frequent ones could be rare all the same.
    frequent, rare = most[counts_S[most] > _RARE], usable[counts_S[usable] <= _RARE]
    return {"frequent": frequent.tolist(), "rare": rare.tolist()}


def _row(scorer: Scorer, table: LoadedTable, source: int, settings: Settings) -> Json:
    phrase, pairs = table.inputs[source], table.pairs_of(source)
    outputs = [table.outputs[pair] for pair in pairs]
    probability = table.probability_P[pairs]
    network = pair_scores(scorer, [phrase] * len(pairs), outputs).log_prob
    by_table = np.lexsort((-table.count_P[pairs], -probability))[:_SHOWN]
    by_network = np.argsort(-network, kind="stable")[:_SHOWN]
    samples = sample_targets(scorer, phrase, settings.samples, settings.seed)
    known = set(outputs)
    return {
        "source": _text(phrase),
        "count": float(table.count_P[pairs].sum()),
        "targets": len(pairs),
        "by_table": [{"target": _text(outputs[i]), "probability": float(probability[i])} for i in by_table],
        "by_network": [{"target": _text(outputs[i]), "ln_p": float(network[i])} for i in by_network],
        "samples": [
            {
                "target": _text(one.target),
                "times": one.times,
                "ln_p": one.log_prob,
                "in_table": one.target in known,
            }
            for one in samples[:_SAMPLES_SHOWN]
        ],
        "samples_in_table": sum(one.times for one in samples if one.target in known) / settings.samples,
    }


def _text(phrase: bytes) -> str:
    return phrase.decode("utf-8", "replace")
