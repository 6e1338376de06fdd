"""The last step: BLEU of the rows over their seeds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from moses_integration.evaluation import p_value_over_runs, score
from moses_integration.tuning.tunings import spread
from phrasescore.files import write_json


def compare_rows(outputs: Mapping[str, Sequence[Path]], reference: Path, report: Path) -> None:
    """Write BLEU of each row and its difference from the first as JSON; print them as a table."""
    found: dict[str, Any] = {}
    [baseline, *_] = outputs
    print("| row | test BLEU | against the baseline | p |\n|---|---|---|---|")
    for row, runs in outputs.items():
        scores = [score(run, [reference]) for run in runs]
        mean, deviation = spread([one.bleu for one in scores])
        p_value = None if row == baseline else p_value_over_runs(runs, outputs[baseline], [reference])
        found[row] = {"bleu": [one.bleu for one in scores], "mean": mean, "deviation": deviation, "p_value": p_value}
        against = "| | |" if p_value is None else f"| {mean - found[baseline]['mean']:+.2f} | {p_value:.4f} |"
        print(f"| {row} | {mean:.2f} ± {deviation:.2f} {against}")
    write_json(report, {"rows": found, "signature": scores[0].signature})
