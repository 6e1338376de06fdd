from __future__ import annotations

import pytest

from phrasescore.table.runs import SourceRuns


@pytest.mark.parametrize(
    ("sources", "begins", "distinct"),
    [("", "", 0), ("aabccc", "101100", 3), ("aaba", "1011", 2)],
)
def test_runs_of_one_source(sources: str, begins: str, distinct: int) -> None:
    runs = SourceRuns()
    assert [runs.add(source.encode()) for source in sources] == [digit == "1" for digit in begins]
    assert len(runs) == begins.count("1")
    assert runs.distinct() == distinct
