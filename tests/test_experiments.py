"""The experiments run, and compare like with like."""

from __future__ import annotations

import pytest

from experiments.speed import annotation, scoring
from phrasescore.training.presets import PRESETS
from tests.conftest import MINI

TABLE = MINI / "phrase-table.gz"


def test_the_straightforward_scorer_gives_the_engine_s_scores() -> None:
    found = scoring.measure(TABLE, "cpu", lines=512, repetitions=1)
    assert found["engine, fp32"]["largest_difference"] < 1e-4
    assert found["engine, bf16"]["largest_difference"] < 0.1
    assert found["pairs"] == 512


def test_the_pipeline_handles_every_line() -> None:
    assert annotation.measure_pipeline(TABLE, 2)["lines"] == 19_385


@pytest.fixture
def small_network(monkeypatch: pytest.MonkeyPatch) -> None:
    """A network of other sizes than the paper's, which takes no time."""
    monkeypatch.setitem(PRESETS["cho2014"], "model", {"hidden": 8, "embedding": 5, "maxout": 4, "output_rank": 3})


@pytest.mark.usefixtures("small_network")
def test_annotating_from_file_to_file_against_the_straightforward_scorer() -> None:
    found = annotation.measure(TABLE, "cpu", lines=4096, repetitions=1)
    speed = found["lines_per_second"]
    assert found["lines"] == 4096
    assert {"straightforward", "processes_1"} <= speed.keys()
    assert found["times_straightforward"]["processes_1"] == speed["processes_1"] / speed["straightforward"] > 0


def test_memory_is_that_of_all_processes() -> None:
    found = annotation.measure_memory(TABLE, 20_000)
    assert found["lines"] == 20_000
    assert found["peak_memory_of_one_mb"] > 0
    assert found["peak_memory_mb"] > 0
