"""`phrasescore-smt add-lm`."""

from __future__ import annotations

from pathlib import Path

import pytest

from moses_integration.cli import main
from tests.conftest import MINI
from tests.moses_integration.mini_system import mini_system


def test_each_model_gets_a_label_of_its_own(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    mini_system(tmp_path)
    before = sorted(tmp_path.rglob("*"))
    command = ["add-lm", str(MINI / "moses.ini"), "-o", str(tmp_path / "added.ini")]
    assert main([*command, "--model", str(tmp_path)]) == 1
    assert "is not a model folder" in capsys.readouterr().err
    assert sorted(tmp_path.rglob("*")) == before
    model = str(tmp_path / "cslm")
    assert main([*command, "--model", model]) == 0
    assert f"as CSLM0, backed off by {MINI / 'lm.fr.arpa'}" in capsys.readouterr().err
    assert main(["add-lm", str(tmp_path / "added.ini"), "-o", str(tmp_path / "two.ini"), "--model", model]) == 0
    assert "as CSLM1, backed off by" in capsys.readouterr().err
