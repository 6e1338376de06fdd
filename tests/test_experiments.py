"""The experiments run, and compare like with like."""

from __future__ import annotations

from experiments.speed import pipeline, scoring
from tests.conftest import MINI

TABLE = MINI / "phrase-table.gz"


def test_the_straightforward_scorer_gives_the_engine_s_scores() -> None:
    found = scoring.measure(TABLE, "cpu", lines=4096, repetitions=1)
    assert found["largest_difference_b_a"] < 1e-4
    assert found["largest_difference_c_a"] < 0.1
    assert found["pairs"] == 4096


def test_the_pipeline_handles_every_line() -> None:
    assert pipeline.measure_pipeline(TABLE, 2)["lines"] == 19_385
