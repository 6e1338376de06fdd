"""The experiment prunes, tunes and decodes; its result is a file of results."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from experiments import pruning
from experiments.pages.results import Results
from tests.conftest import MINI


@pytest.fixture
def ablation(tmp_path: Path) -> Path:
    """The folder of an ablation with the system of the mini corpus and three sentences."""
    folder = tmp_path / "ablation"
    shutil.copytree(MINI, folder / "system")
    (folder / "prepared").mkdir()
    for part in ("dev", "test"):
        for language, name in (("en", "source"), ("fr", "reference0")):
            lines = (MINI / f"{part}.{language}").read_bytes().splitlines(keepends=True)
            (folder / "prepared" / f"{part}.{name}").write_bytes(b"".join(lines[:3]))
    return folder


@pytest.mark.parametrize("tuning", [["--weights", str(MINI / "moses.tuned.ini")], ["--seeds", "1", "2"]])
def test_systems_of_several_sizes(
    ablation: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tuning: list[str]
) -> None:
    output = ablation / "results"
    command = [str(ablation), "--output", str(output), "--criteria", "count", "--shares", "0.2", "--processes", "1"]
    monkeypatch.setattr("sys.argv", ["pruning", *command, *tuning])
    assert pruning.run(pruning.parse_arguments()) == 0
    table = Results(output).table("pruning")
    assert list(table.rows) == ["no pruning", "count, 20%"]
    assert [row["lines"] for row in table.rows.values()] == [19_385, 3877]
    assert all(0 < float(table.text(row, "BLEU", ".2f")) <= 100 for row in table.rows)
    assert b"count" in (output / "pruning.svg").read_bytes()
    assert "| count, 20% | count | 3,877 |" in capsys.readouterr().out
