"""What a program takes from `phrasescore`."""

from __future__ import annotations

import math
import subprocess
import sys
from pathlib import Path

import pytest

import phrasescore
from tests.conftest import DATA


def test_a_table_and_pairs_are_scored(small_table: Path, tmp_path: Path) -> None:
    """With the same numbers."""
    output = tmp_path / "out"
    counts = phrasescore.annotate(small_table, DATA / "stored-model", output, processes=1)
    assert counts.lines_written == 600
    scorer = phrasescore.Scorer.load(DATA / "stored-model", direction="target-given-source")
    lines = [line.split(b" ||| ") for line in output.read_bytes().splitlines()]
    found = scorer.score((line[0], line[1]) for line in lines)
    assert found == pytest.approx([math.log(float(line[2].split()[-1])) for line in lines], abs=0.1)


def test_importing_it_needs_no_torch() -> None:
    code = "import sys; sys.modules['torch'] = None; import phrasescore; assert dir(phrasescore)"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, check=False).stderr == b""


def test_there_is_nothing_else() -> None:
    assert {name for name in phrasescore.__all__ if getattr(phrasescore, name)} == {"COLUMNS", "Scorer", "annotate"}
    with pytest.raises(AttributeError, match="'phrasescore' has no attribute 'nothing'"):
        phrasescore.nothing  # noqa: B018
