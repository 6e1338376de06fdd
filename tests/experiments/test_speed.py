"""Speed of the neural language model, alone and in the decoder."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch

from experiments.speed import __main__ as speed
from experiments.speed import decoding, training
from phrasescore.errors import UserError
from phrasescore.nn.config import ModelConfig
from tests.conftest import MINI
from tests.moses_integration.mini_system import mini_system


def test_the_decoder_with_and_without_the_network(tmp_path: Path) -> None:
    found = decoding.measure_decoder(mini_system(tmp_path, self_normalise=0.1), MINI / "test.en", 5)
    assert found["sentences"] == 5
    assert found["without"]["cold"]["seconds"] > 0
    assert found["without"]["cold"]["queries"] == 0
    for name in ("normalised", "unnormalised"):
        cold, warm = found[name]["cold"], found[name]["warm"]
        assert cold["queries"] == warm["queries"] > 0
        assert cold["served"] < 0.99 < warm["served"]
        assert found[name]["times_without"] == cold["seconds"] / found["without"]["cold"]["seconds"]
    assert not (tmp_path / "cache").exists(), "what a file holds would make the first time fast"


def test_a_network_that_is_not_self_normalised(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    ini = mini_system(tmp_path)
    command = ["speed", "--parts", "--ini", ini, "--source", MINI / "test.en", "--sentences", "2", "--device", "cpu"]
    monkeypatch.setattr("sys.argv", [str(word) for word in [*command, "--output", tmp_path / "report"]])
    assert speed.run(speed.parse_arguments()) == 0
    report = json.loads((tmp_path / "report" / "report.json").read_bytes())
    assert report["decoder"].keys() == {"ini", "sentences", "without", "normalised"}
    assert report["machine"]["versions"]["torch"] == torch.__version__
    printed = capsys.readouterr().out
    assert "| decoder, normalised, cold, seconds |" in printed
    assert "unnormalised" not in printed


def test_faults_are_sentences(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"moses.tuned.ini: has 0 CSLM features; give an ini with one"):
        decoding.measure_decoder(MINI / "moses.tuned.ini", MINI / "test.en", 5)
    (tmp_path / "empty").write_bytes(b"")
    with pytest.raises(UserError, match="empty: has no sentences"):
        decoding.measure_decoder(MINI / "moses.tuned.ini", tmp_path / "empty", 5)


def test_the_speed_of_training_leaves_out_the_first_updates(monkeypatch: pytest.MonkeyPatch) -> None:
    small = ModelConfig(hidden=4, embedding=4, maxout=2, output_rank=2)
    monkeypatch.setattr(training, "SETTINGS", replace(training.SETTINGS, model=small))
    times = iter([100.0, 106.0])
    monkeypatch.setattr(training, "time", SimpleNamespace(perf_counter=times.__next__))
    found = training.measure(MINI / "phrase-table.gz", "cpu", 3)
    assert found["pairs_per_second"] == 768 * 3 / 6
    assert next(times, None) is None


def test_the_language_model_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(decoding, "_QUERIES", 64)
    found = decoding.measure_language_model("cpu", "small", repetitions=1)
    speeds = found["queries_per_second"]
    assert found["times_exact"] == speeds["unnormalised"] / speeds["exact"]
    assert min(speeds.values()) > 0
