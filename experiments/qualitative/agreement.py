"""How the table's score and the network's agree (Figure 3)."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from experiments.qualitative.settings import Settings
from phrasescore.analysis.loaded_table import LoadedTable
from phrasescore.analysis.word_scores import pair_scores
from phrasescore.scoring.engine import Scorer

_BANDS = {
    "extracted once": (1, 1),
    "extracted 2 to 4 times": (2, 4),
    "extracted 5 to 19 times": (5, 19),
    "extracted 20 times or more": (20, np.inf),
}
"""How often a source was extracted, from and to: the table's score is as good as its counts."""
_FEWEST = 10


def agreement(scorer: Scorer, table: LoadedTable, settings: Settings) -> tuple[pd.DataFrame, dict[str, Any]]:
    """Return a random sample of pairs with both scores, and correlations by how often the source was extracted."""
    random = np.random.default_rng([settings.seed, 2])
    usable = np.flatnonzero(table.probability_P > 0)
    count_P = np.repeat(table.input_count_S, np.diff(table.offsets))
    sample = _scored(scorer, table, random.permutation(usable)[: settings.pairs])
    found = {"all sources": correlations(sample)}
    for name, (low, high) in _BANDS.items():
        band = usable[(count_P[usable] >= low) & (count_P[usable] <= high)]
        drawn = random.permutation(band)[: settings.pairs]
        if len(drawn) >= _FEWEST:
            found[name] = correlations(_scored(scorer, table, drawn))
    return sample, found


def correlations(sample: pd.DataFrame) -> dict[str, Any]:
    """Return the correlations of `table` with `network` and with `network_per_word`; None where one is constant."""
    found: dict[str, Any] = {"pairs": len(sample)}
    for name, left, right in (
        ("pearson", sample["table"], sample["network"]),
        ("spearman", sample["table"].rank(), sample["network"].rank()),
        ("spearman_per_word", sample["table"].rank(), sample["network_per_word"].rank()),
    ):
        constant = left.nunique() < 2 or right.nunique() < 2
        found[name] = None if constant else float(np.corrcoef(left, right)[0, 1])
    return found


def _scored(scorer: Scorer, table: LoadedTable, pairs: np.ndarray[Any, np.dtype[np.int64]]) -> pd.DataFrame:
    input_of_pair_P = table.input_of_pair_P
    sources = [table.inputs[input_of_pair_P[pair]] for pair in pairs]
    targets = [table.outputs[pair] for pair in pairs]
    scores = pair_scores(scorer, sources, targets)
    return pd.DataFrame(
        {
            "table": np.log(table.probability_P[pairs]),
            "network": scores.log_prob,
            "network_per_word": scores.values(per_word=True),
            "target_words": scores.symbols - 1,
        }
    )
