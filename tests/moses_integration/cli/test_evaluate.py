"""`phrasescore-smt evaluate`."""

from __future__ import annotations

from pathlib import Path

import pytest

from moses_integration.cli import main
from tests.conftest import MINI


@pytest.mark.parametrize("options", [[], ["--baseline", str(MINI / "dev.fr"), "--trials", "100"]])
def test_without_regard_to_capitals(tmp_path: Path, capsys: pytest.CaptureFixture[str], options: list[str]) -> None:
    capitals = tmp_path / "capitals"
    capitals.write_text((MINI / "dev.fr").read_text().upper())
    command = ["evaluate", str(capitals), "--reference", str(MINI / "dev.fr"), "--tokenise", "none", *options]
    found = []
    for case in ([], ["--lowercase"]):
        assert main([*command, *case]) == 0
        found.append(capsys.readouterr().out)
    mixed, lower = found
    assert "case:mixed" in mixed
    assert not mixed.startswith("BLEU 100.00")
    assert "case:lc" in lower
    assert lower.startswith("BLEU 100.00")
