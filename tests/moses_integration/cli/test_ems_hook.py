"""The experiment manager's hook: the score takes the place of the constant that --PhraseCount writes."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest

from moses_integration.cli import main
from phrasescore.cli import main as phrasescore
from tests.conftest import DATA, MINI

MODEL = str(DATA / "stored-model")


@pytest.fixture
def counted(tmp_path: Path) -> Path:
    """A table with the constant fifth column; its name without .gz."""
    lines = gzip.decompress((MINI / "phrase-table.gz").read_bytes()).splitlines(keepends=True)[:50]
    widened = []
    for line in lines:
        fields = line.split(b" ||| ")
        fields[2] += b" 2.718"
        widened.append(b" ||| ".join(fields))
    (tmp_path / "phrase-table.1.gz").write_bytes(gzip.compress(b"".join(widened)))
    return tmp_path / "phrase-table.1"


def lines_of(path: Path) -> list[bytes]:
    return gzip.decompress(path.read_bytes()).splitlines()


def test_the_hook_replaces_the_constant(tmp_path: Path, counted: Path, capfd: pytest.CaptureFixture[str]) -> None:
    assert main(["ems-hook", "-m", MODEL, str(counted), str(tmp_path / "out")]) == 0
    before, after = lines_of(counted.with_name("phrase-table.1.gz")), lines_of(tmp_path / "out.gz")
    assert len(after) == len(before) == 50
    for old, new in zip(before, after, strict=True):
        old_fields, new_fields = old.split(b" ||| "), new.split(b" ||| ")
        *old_scores, constant = old_fields.pop(2).split(b" ")
        *new_scores, score = new_fields.pop(2).split(b" ")
        assert (old_fields, old_scores, constant) == (new_fields, new_scores, b"2.718")
        assert 0 < float(score) <= 1
    # EMS takes words on standard error for a crash.
    assert capfd.readouterr().err == ""


def test_the_hook_trains_a_network_that_is_not_there(tmp_path: Path, counted: Path) -> None:
    options = "--max-updates 2 --hidden 8 --embedding 4 --maxout 4 --output-rank 4"
    arguments = ["ems-hook", "-m", str(tmp_path / "rnn"), "--train", options, str(counted), str(tmp_path / "out")]
    assert main(arguments) == 0
    assert len(lines_of(tmp_path / "out.gz")) == 50
    weights = (tmp_path / "rnn" / "weights.safetensors").stat().st_mtime_ns
    assert main(arguments) == 0
    assert (tmp_path / "rnn" / "weights.safetensors").stat().st_mtime_ns == weights


def test_another_last_column_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    table, output = str(MINI / "phrase-table.gz"), tmp_path / "out.gz"
    assert phrasescore(["annotate", table, "-m", MODEL, "-o", str(output), "--replace-last", "2.718"]) == 1
    assert "where 2.718 is to be replaced" in capsys.readouterr().err
    assert not output.exists()


def test_replacing_does_not_go_with_keeping_faulty_lines(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["annotate", str(MINI / "phrase-table.gz"), "-m", MODEL, "--replace-last", "1", "--on-error", "keep"]
    assert phrasescore(arguments) == 1
    assert "does not go with" in capsys.readouterr().err
