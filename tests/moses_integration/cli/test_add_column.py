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


@pytest.mark.parametrize(("options", "weight"), [([], 0.2), (["--weight", "0.05"], 0.05), (["--weight", "-1"], -1.0)])
def test_a_new_column_starts_with_the_weight_asked_for(tmp_path: Path, options: list[str], weight: float) -> None:
    output = tmp_path / "added.ini"
    command = ["add-column", str(MINI / "moses.ini"), "--table", str(MINI / "phrase-table.5.gz"), *options]
    assert main([*command, "-o", str(output)]) == 0
    before, after = (MosesIni.read(path).weights()["TranslationModel0"] for path in (MINI / "moses.ini", output))
    assert after == [*before, weight]
