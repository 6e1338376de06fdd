"""Significance of a difference between systems that were tuned several times.

Clark et al., "Better hypothesis testing for statistical machine translation" (ACL 2011): tuning runs are a source of
chance like the choice of sentences, so all of them are part of the test. Translations are exchanged sentence by
sentence within each run.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain
from pathlib import Path
from tempfile import TemporaryDirectory

from moses_integration.evaluation import Comparison, compare
from phrasescore.files import read_lines, write_lines


def compare_runs(
    runs: Sequence[Path], baseline_runs: Sequence[Path], references: Sequence[Path], tokenise: str = "13a"
) -> Comparison:
    """Compare the translations of the test text by all runs of a system with those by as many runs of another.

    Raises:
        UserError: a file cannot be read or is empty, or the files differ in their number of lines.
    """
    with TemporaryDirectory() as name:
        folder = Path(name)
        system, baseline = _pool(runs, folder / "system"), _pool(baseline_runs, folder / "baseline")
        pooled = [_pool([one] * len(runs), folder / f"reference{number}") for number, one in enumerate(references)]
        return compare(system, baseline, pooled, tokenise)


def _pool(texts: Sequence[Path], output: Path) -> Path:
    write_lines(output, chain.from_iterable(map(read_lines, texts)))
    return output
