"""The experiments run, and compare like with like."""

from __future__ import annotations

from functools import partial

import pytest

from experiments.speed import annotation, scoring
from tests.conftest import MINI

TABLE = MINI / "phrase-table.gz"


def test_the_straightforward_scorer_gives_the_engine_s_scores() -> None:
    found = scoring.measure(TABLE, "cpu", lines=512, repetitions=1)
    assert found["engine, fp32"]["largest_difference"] < 1e-4
    assert found["engine, bf16"]["largest_difference"] < 0.1
    assert found["pairs"] == 512


def test_the_pipeline_handles_every_line() -> None:
    assert annotation.measure_pipeline(TABLE, 2)["lines"] == 19_385


def test_annotating_from_file_to_file(monkeypatch: pytest.MonkeyPatch) -> None:
    """By a network of other sizes than the paper's, which takes no time."""
    monkeypatch.setattr(scoring, "random_model", partial(scoring.random_model, config=annotation._SMALL))
    found = annotation.measure(TABLE, "cpu", lines=4096, repetitions=1)
    assert found["lines"] == 4096
    assert found["1 processes"]["pairs_per_second"] > 0
    assert found["1 processes"]["pairs_per_cpu_second"] > 0


def test_memory_is_not_that_of_the_process_that_measures() -> None:
    content = b"x" * 10**9
    found = annotation.measure_memory(TABLE, 20_000)
    assert found["lines"] == 20_000
    assert 50 < found["peak_memory_of_one_mb"] < len(content) / (1 << 20)
