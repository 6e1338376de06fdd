"""Speed of the neural language model, alone and in the decoder."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch

from experiments.speed import __main__ as speed
from experiments.speed import decoder, language_model
from phrasescore.errors import UserError
from tests.conftest import MINI
from tests.moses_integration.mini_system import mini_system


def test_the_decoder_with_and_without_the_network(tmp_path: Path) -> None:
    found = decoder.measure(mini_system(tmp_path, self_normalise=0.1), MINI / "test.en", 5)
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
    assert "| with it, normalised |" in printed
    assert "unnormalised" not in printed


def test_faults_are_sentences(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"moses.tuned.ini: has 0 CSLM features; give an ini with one"):
        decoder.measure(MINI / "moses.tuned.ini", MINI / "test.en", 5)
    (tmp_path / "empty").write_bytes(b"")
    with pytest.raises(UserError, match="empty: has no sentences"):
        decoder.measure(MINI / "moses.tuned.ini", tmp_path / "empty", 5)


def test_the_language_model_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(language_model, "_QUERIES", 64)
    found = language_model.measure("cpu", "small", repetitions=1)
    speeds = found["queries_per_second"]
    assert found["queries"] == 64
    assert found["times_exact"] == speeds["unnormalised"] / speeds["exact"]
    assert min(speeds.values()) > 0
