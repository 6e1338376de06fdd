"""The experiments run, and compare under equal conditions."""

from __future__ import annotations

from functools import partial

import pytest

from experiments.speed import annotation, scoring, training
from phrasescore.nn.architecture import ModelConfig
from tests.conftest import MINI

TABLE = MINI / "phrase-table.gz"


def test_the_straightforward_scorer_gives_the_engine_s_scores() -> None:
    found = scoring.measure(TABLE, "cpu", lines=512, repetitions=1)
    assert found["engine, fp32"]["largest_difference"] < 1e-4
    assert found["engine, bf16"]["largest_difference"] < 0.1
    assert found["pairs"] == 512


def test_annotating_from_file_to_file(monkeypatch: pytest.MonkeyPatch) -> None:
    """Annotation runs from file to file, with a network smaller than the paper's to save time."""
    small = ModelConfig(hidden=16, embedding=8, maxout=8, output_rank=8)
    monkeypatch.setattr(scoring, "random_model", partial(scoring.random_model, config=small))
    found = annotation.measure(TABLE, "cpu", lines=4096, repetitions=1)
    assert found["lines"] == 4096
    assert found["1 processes"]["pairs_per_second"] > 0
    assert found["1 processes"]["pairs_per_cpu_second"] > 0


def test_the_parts_of_the_gpu_list_run_on_a_cpu() -> None:
    """Speeds and shares of the roofline of scoring and training, with tiny sizes."""
    engine = scoring.measure_engine(TABLE, "cpu", lines=64, repetitions=1)
    trained = training.measure(TABLE, MINI / "train", "cpu", updates=2)
    for found in (*engine.values(), *trained.values()):
        assert all(figure > 0 for figure in found.values())
        assert found["share_of_roofline"] < 2
