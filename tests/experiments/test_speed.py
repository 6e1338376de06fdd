"""The speed report and its parts."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
import torch

from experiments.speed import __main__ as speed
from experiments.speed import annotation, decoding, scoring, training
from phrasescore.nn.architecture import ModelConfig
from tests.conftest import MINI

TABLE = MINI / "phrase-table.gz"


def test_the_report_has_a_figure_a_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(decoding, "_LENGTHS", (5,))
    command = ["speed", "--parts", "long-sentences", "--device", "cpu", "--output", str(tmp_path / "report")]
    monkeypatch.setattr("sys.argv", command)
    assert speed.run(speed.parse_arguments()) == 0
    report = json.loads((tmp_path / "report" / "report.json").read_bytes())
    assert report["long-sentences"]["5 words"]["best"] > 0
    assert report["machine"]["versions"]["torch"].partition("+")[0] == torch.__version__.partition("+")[0]
    printed = capsys.readouterr().out
    assert re.search(r"^\| long-sentences, 5 words, list \| \d\.\d+", printed, re.MULTILINE)
    assert (tmp_path / "report" / "report.md").read_text() == printed


def test_the_language_model_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(decoding, "_QUERIES", 64)
    found = decoding.measure_language_model("cpu", "small", repetitions=1)
    speeds = found["queries_per_second"]
    assert found["times_exact"] == speeds["unnormalised"] / speeds["exact"]
    assert min(speeds.values()) > 0


@pytest.fixture
def small_networks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Replace the paper's sizes by small ones, to save time."""
    small = ModelConfig(hidden=16, embedding=8, maxout=8, output_rank=8)
    monkeypatch.setattr(scoring, "PAPER", small)
    monkeypatch.setattr(scoring.random_model, "__defaults__", (small,))


@pytest.mark.usefixtures("small_networks")
def test_the_straightforward_scorer_gives_the_engine_s_scores() -> None:
    found = scoring.measure(TABLE, "cpu", lines=128, repetitions=1)
    assert found["engine, fp32"]["largest_difference"] < 1e-4
    assert found["engine, bf16"]["largest_difference"] < 0.1
    assert found["engine, fp32, unnormalised"]["times_straightforward"] > 0
    assert found["pairs"] == 128


@pytest.mark.usefixtures("small_networks")
def test_annotating_from_file_to_file() -> None:
    found = annotation.measure(TABLE, "cpu", lines=1024, repetitions=1, processes=[1])
    assert found["lines"] == 1024
    assert found["auto, 1 processes"]["pairs_per_second"] > 0


@pytest.mark.usefixtures("small_networks")
def test_the_parts_of_the_gpu_list_run_on_a_cpu() -> None:
    """Speeds and shares of the roofline of scoring and training, with tiny sizes."""
    engine = scoring.measure_engine(TABLE, "cpu", lines=64, repetitions=1)
    trained = training.measure(TABLE, MINI / "train", "cpu", updates=2)
    for found in (*engine.values(), *trained.values()):
        assert all(figure > 0 for figure in found.values())
        assert found["share_of_roofline"] < 2
