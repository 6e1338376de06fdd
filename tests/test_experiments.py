"""The experiments run, and compare under equal conditions."""

from __future__ import annotations

import pytest

from experiments.speed import annotation, scoring, training
from phrasescore.nn.architecture import ModelConfig
from tests.conftest import MINI

TABLE = MINI / "phrase-table.gz"


@pytest.fixture(autouse=True)
def _small_networks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Replace the paper's sizes by small ones, to save time."""
    small = ModelConfig(hidden=16, embedding=8, maxout=8, output_rank=8)
    monkeypatch.setattr(scoring, "PAPER", small)
    monkeypatch.setattr(scoring.random_model, "__defaults__", (small,))


def test_the_straightforward_scorer_gives_the_engine_s_scores() -> None:
    found = scoring.measure(TABLE, "cpu", lines=128, repetitions=1)
    assert found["engine, fp32"]["largest_difference"] < 1e-4
    assert found["engine, bf16"]["largest_difference"] < 0.1
    assert found["engine, fp32, unnormalised"]["times_straightforward"] > 0
    assert found["pairs"] == 128


def test_annotating_from_file_to_file() -> None:
    found = annotation.measure(TABLE, "cpu", lines=1024, repetitions=1, processes=[1])
    assert found["lines"] == 1024
    assert found["1 processes"]["pairs_per_second"] > 0
    assert found["1 processes"]["pairs_per_cpu_second"] > 0


def test_the_parts_of_the_gpu_list_run_on_a_cpu() -> None:
    """Speeds and shares of the roofline of scoring and training, with tiny sizes."""
    engine = scoring.measure_engine(TABLE, "cpu", lines=64, repetitions=1)
    trained = training.measure(TABLE, MINI / "train", "cpu", updates=2)
    for found in (*engine.values(), *trained.values()):
        assert all(figure > 0 for figure in found.values())
        assert found["share_of_roofline"] < 2
