"""The speed report, and the speed of the neural language model."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
import torch

from experiments.speed import __main__ as speed
from experiments.speed import decoding


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
