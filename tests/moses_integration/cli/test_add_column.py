"""`phrasescore-smt add-column`."""

from __future__ import annotations

from pathlib import Path

import pytest

from moses_integration.cli import main
from moses_integration.ini import MosesIni
from tests.conftest import MINI


def test_it_says_what_it_wrote(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    table, output = MINI / "phrase-table.5.gz", tmp_path / "five.ini"
    assert main(["add-column", str(MINI / "moses.ini"), "--table", str(table), "-o", str(output)]) == 0
    assert capsys.readouterr().err.startswith(f"{output}: written, with {table} as TranslationModel0; tune")
    assert MosesIni.read(output).feature("TranslationModel0").width == 5
