"""`phrasescore-smt add-column`."""

from __future__ import annotations

import gzip
import shutil
from pathlib import Path

import pytest

from moses_integration.cli import main
from moses_integration.ini import MosesIni
from tests.conftest import MINI


def test_the_output_is_logged(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    table, output = MINI / "phrase-table.5.gz", tmp_path / "five.ini"
    assert main(["add-column", str(MINI / "moses.ini"), "--table", str(table), "-o", str(output)]) == 0
    assert capsys.readouterr().err.startswith(
        f"{output}: written, with {table} (1 new column) as TranslationModel0; tune"
    )
    assert MosesIni.read(output).feature("TranslationModel0").width == 5


def test_a_table_that_moses_cannot_read_is_logged(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    shutil.copy(MINI / "phrase-table.5.gz", tmp_path / "table")
    options = ["--table", str(tmp_path / "table"), "-o", str(tmp_path / "five.ini")]
    assert main(["add-column", str(MINI / "moses.ini"), *options]) == 0
    assert f"{tmp_path}/table: is gzip data under the name table, and Moses goes by" in capsys.readouterr().err


def test_the_source_of_paths_is_logged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The command reports which folder relative paths refer to.

    In the sample models of Moses' tutorial, paths refer to the parent folder, where `moses` runs.
    """
    system = tmp_path / "models/phrase-model"
    shutil.copytree(MINI, system, ignore=shutil.ignore_patterns("decode", "*.nbest*"))
    text = (MINI / "moses.ini").read_text().replace("path=", "path=models/phrase-model/")
    (system / "moses.ini").write_text(text)
    command = ["add-column", str(system / "moses.ini"), "--table", str(system / "phrase-table.5.gz"), "-o"]
    monkeypatch.chdir(system)
    assert main([*command, "here.ini"]) == 1
    assert "does not exist, relative to" in capsys.readouterr().err
    assert not (system / "here.ini").exists()
    monkeypatch.chdir(tmp_path)
    assert main([*command, str(system / "moses.5.ini")]) == 0
    said = capsys.readouterr().err
    assert f"relative paths start at the working directory, {tmp_path}, as in Moses" in said
    monkeypatch.chdir("/")
    MosesIni.read(system / "moses.5.ini").require_files()


@pytest.mark.parametrize(("options", "weight"), [([], 0.2), (["--weight", "0.05"], 0.05), (["--weight", "-1"], -1.0)])
def test_a_new_column_starts_with_the_weight_asked_for(tmp_path: Path, options: list[str], weight: float) -> None:
    output = tmp_path / "added.ini"
    command = ["add-column", str(MINI / "moses.ini"), "--table", str(MINI / "phrase-table.5.gz"), *options]
    assert main([*command, "-o", str(output)]) == 0
    before, after = (MosesIni.read(path).weights()["TranslationModel0"] for path in (MINI / "moses.ini", output))
    assert after == [*before, weight]


def test_the_new_columns_are_counted(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    table, output = tmp_path / "wider.gz", tmp_path / "added.ini"
    lines = gzip.decompress((MINI / "phrase-table.5.gz").read_bytes()).splitlines(keepends=True)
    wider = (line.split(b" ||| ") for line in lines)
    table.write_bytes(gzip.compress(b"".join(b" ||| ".join([*one[:2], one[2] + b" 2.718", *one[3:]]) for one in wider)))
    assert main(["add-column", str(MINI / "moses.ini"), "--table", str(table), "-o", str(output)]) == 0
    assert f"with {table} (2 new columns) as TranslationModel0" in capsys.readouterr().err
    assert MosesIni.read(output).feature("TranslationModel0").width == 6


def test_a_table_of_another_system_is_rejected(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    lines = gzip.decompress((MINI / "phrase-table.5.gz").read_bytes()).splitlines(keepends=True)
    other, part, output = tmp_path / "other.gz", tmp_path / "part.gz", tmp_path / "added.ini"
    other.write_bytes(gzip.compress(b"".join([*lines[:7], lines[7].replace(b" ||| ", b" ||| nulle ", 1)])))
    command = ["add-column", str(MINI / "moses.ini"), "-o", str(output), "--table"]
    assert main([*command, str(other)]) == 1
    said = capsys.readouterr().err
    assert f"{other}: has phrase pairs that {MINI}/phrase-table.gz lacks, which {MINI}/moses.ini names" in said
    assert not output.exists()
    assert main([*command, "-"]) == 1
    assert "standard input: can be read only once, but the ini will name it; give a file" in capsys.readouterr().err
    # The column's table may have fewer pairs in another order, as --only-sources-in writes it.
    part.write_bytes(gzip.compress(b"".join([lines[900], lines[300], lines[-1]])))
    assert main([*command, str(part)]) == 0
