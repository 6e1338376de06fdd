"""Paired approximate randomisation of systems with several runs.

Shape suffixes: S sentences, 10 BLEU statistics; see `moses_integration.metrics`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from moses_integration.metrics import Statistics, p_value_of, read_parallel, statistics_of


def p_value_over_runs(
    runs: Sequence[Path], baseline_runs: Sequence[Path], references: Sequence[Path], tokenise: str = "13a"
) -> float:
    """Return the p-value of the difference between two systems with one or more runs each.

    A trial exchanges all translations of a sentence together, because the translations of several runs are similar: an
    additional run is weaker evidence than an additional sentence, and a copy of a run is no evidence. Clark et al.
    (ACL 2011) exchange the translations of each run separately, which gives smaller p-values.
    """
    texts, reference_texts = read_parallel((*runs, *baseline_runs), references)

    def summed(outputs: Sequence[Sequence[str]]) -> Statistics:
        counted = [statistics_of(lines, reference_texts, tokenise, lowercase=False) for lines in outputs]
        # Copies of the runs give both systems the same number.
        copies = math.lcm(len(runs), len(baseline_runs)) // len(outputs)
        total_S10: Statistics = np.array(counted).sum(axis=0) * copies
        return total_S10

    system_S10, base_S10 = summed(texts[: len(runs)]), summed(texts[len(runs) :])
    return p_value_of(base_S10, system_S10)
