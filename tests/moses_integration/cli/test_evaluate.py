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


def test_translations_in_another_encoding_are_told_of(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Their words match nothing. A byte order mark is no word."""
    reference = (MINI / "dev.fr").read_text()
    (tmp_path / "marked").write_text(reference, "utf-8-sig")
    (tmp_path / "latin").write_text(reference.replace("’", "'").replace("œ", "oe"), "latin-1")
    command = ["evaluate", "--reference", str(MINI / "dev.fr"), "--tokenise", "none"]
    assert main([*command, str(tmp_path / "marked")]) == 0
    assert capsys.readouterr().out.startswith("BLEU 100.00")
    assert main([*command, str(tmp_path / "latin")]) == 0
    out, err = capsys.readouterr()
    assert not out.startswith("BLEU 100.00")
    assert err.startswith(f"{tmp_path}/latin: lines that are not UTF-8: ")
