"""The hook for the experiment manager replaces the constant column of --PhraseCount with the score."""

from __future__ import annotations

import gzip
import json
import os
import signal
import sys
import time
from pathlib import Path

import pytest

from moses_integration.cli import ems_hook, main
from phrasescore.cli import main as phrasescore
from tests.conftest import DATA, MINI
from tests.forked import ForkedPopen
from tests.moses_integration.cli.running import CRASH_WORDS, environment

MODEL = str(DATA / "stored-model")


@pytest.fixture
def counted(tmp_path: Path) -> Path:
    """A table with the constant fifth column; return its name without .gz."""
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
    # EMS searches standard error for words that indicate a crash.
    assert capfd.readouterr().err == ""


def test_the_hook_takes_whole_names_of_files_too(tmp_path: Path, counted: Path) -> None:
    assert main(["ems-hook", "-m", MODEL, f"{counted}.gz", str(tmp_path / "out.gz")]) == 0
    assert len(lines_of(tmp_path / "out.gz")) == 50


def test_the_hook_trains_a_network_that_is_not_there(tmp_path: Path, counted: Path) -> None:
    options = "--max-updates 2 --hidden 8 --set model.embedding=4"
    arguments = ["ems-hook", "-m", str(tmp_path / "rnn"), "--train", options, str(counted), str(tmp_path / "out")]
    assert main(arguments) == 0
    assert len(lines_of(tmp_path / "out.gz")) == 50
    trained = [(tmp_path / "rnn" / name).read_bytes() for name in ("weights.safetensors", "metrics.jsonl")]
    # Neither another table nor other options train it again.
    table = tmp_path / "table.gz"
    table.write_bytes(gzip.compress(b"\n".join(lines_of(Path(f"{counted}.gz"))[:20])))
    arguments[4:6] = ["--max-updates 4 --hidden 8 --set model.embedding=4", str(table)]
    assert main(arguments) == 0
    assert len(lines_of(tmp_path / "out.gz")) == 20
    assert [(tmp_path / "rnn" / name).read_bytes() for name in ("weights.safetensors", "metrics.jsonl")] == trained


def test_the_hook_resumes_a_killed_training(tmp_path: Path, counted: Path, capfd: pytest.CaptureFixture[str]) -> None:
    model, updates = tmp_path / "rnn", 120
    options = (
        f"--max-updates {updates} --set training.patience=0 --evaluate-every 10 --hidden 8 --set model.embedding=4"
    )
    arguments = ["ems-hook", "-m", str(model), "--train", options, str(counted), str(tmp_path / "out")]
    process = ForkedPopen(["phrasescore-smt", *arguments], environment())
    while not (model / "weights.safetensors").exists():
        assert process.poll() is None
        time.sleep(0.01)
    process.send_signal(signal.SIGKILL)
    process.wait()

    def last_update() -> int:
        return int(json.loads((model / "metrics.jsonl").read_text().splitlines()[-1])["update"])

    assert last_update() < updates
    assert not (tmp_path / "out.gz").exists()
    assert main(arguments) == 0
    assert last_update() == updates
    assert len(lines_of(tmp_path / "out.gz")) == 50
    assert capfd.readouterr().err == ""


def test_the_hook_uses_a_network_that_comes_without_its_training(tmp_path: Path, counted: Path) -> None:
    assert main(["ems-hook", "-m", MODEL, "--train", "", str(counted), str(tmp_path / "out")]) == 0
    assert len(lines_of(tmp_path / "out.gz")) == 50


@pytest.mark.parametrize("problem", ["table", "constant", "truncated", "model", "options", "plugin", "stopped"])
def test_a_hook_that_fails_reports_it_to_the_experiment_manager(
    tmp_path: Path,
    counted: Path,
    capfdbinary: pytest.CaptureFixture[bytes],
    problem: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A failing hook writes to standard error, because the experiment manager ignores its exit code."""
    table, model, options = counted.with_name("phrase-table.1.gz"), MODEL, []
    match problem:
        case "table":
            table.unlink()
        case "constant":
            table.write_bytes((MINI / "phrase-table.gz").read_bytes())
        case "truncated":
            table.write_bytes(table.read_bytes()[:-20])
        case "model":
            model = str(tmp_path / "nowhere")
        case "options":
            model, options = str(tmp_path / "rnn"), ["--train", "--hiden 8"]
        case "plugin":
            (tmp_path / "mine.py").write_text("1 / 0")
            options = ["--plugin", str(tmp_path / "mine.py")]
        case "stopped":
            monkeypatch.setattr(ems_hook, "phrasescore", lambda arguments: sys.exit(143))
    code = main(["ems-hook", "-m", model, *options, str(counted), str(tmp_path / "out")])
    assert code == {"options": 2, "stopped": 143}.get(problem, 1)
    messages = capfdbinary.readouterr().err.lower()
    assert [word for word in CRASH_WORDS if word in messages]
    assert messages.endswith(f"phrasescore-smt ems-hook: failed with exit code {code}\n".encode())
    assert not (tmp_path / "out.gz").exists()


@pytest.mark.parametrize("wrong", [["--train", "--restart"], ["--train", "--preset 'small"], ["--trane", "x"], []])
def test_wrong_usage_is_reported_too(wrong: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as end:
        main(["ems-hook", *(["-m", MODEL] if wrong else []), *wrong, "in", "out"])
    assert end.value.code == 2
    assert capsys.readouterr().err.endswith("\nphrasescore-smt ems-hook: failed with exit code 2\n")


def test_help_is_no_failure(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as end:
        main(["ems-hook", "--help"])
    assert end.value.code == 0
    said = capsys.readouterr()
    assert "--train=--epochs=5" in said.out
    assert said.err == ""


def test_a_single_option_of_the_training(tmp_path: Path, counted: Path) -> None:
    (tmp_path / "small.toml").write_text("[model]\nhidden = 8\n[training]\nmax_updates = 1\n")
    arguments = ["ems-hook", "-m", str(tmp_path / "rnn"), f"--train=--config={tmp_path}/small.toml"]
    assert main([*arguments, str(counted), str(tmp_path / "out")]) == 0
    assert len(lines_of(tmp_path / "out.gz")) == 50


def test_another_last_column_is_rejected(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    table, output = str(MINI / "phrase-table.gz"), tmp_path / "out.gz"
    assert phrasescore(["annotate", table, "-m", MODEL, "-o", str(output), "--replace-last", "2.718"]) == 1
    message = capsys.readouterr().err
    assert f"{table}, line 1, field 3 (scores): ends in " in message
    assert "where 2.718 is to be replaced; give --replace-last what ends every line" in message
    assert not output.exists()
    assert phrasescore(["annotate", table, "-m", MODEL, "-o", str(output), "--replace-last", os.fsdecode(b"\xff")]) == 1
    assert "is to be replaced; give --replace-last" in capsys.readouterr().err


def test_the_line_with_another_last_column_is_named(
    tmp_path: Path, counted: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    table = counted.with_name("phrase-table.1.gz")
    lines = lines_of(table)
    lines[40] = lines[40].replace(b" 2.718 ", b" 2.72 ")
    table.write_bytes(gzip.compress(b"\n".join([*lines, b""])))
    (tmp_path / "text").write_text("the")
    sources = ["--only-sources-in", str(tmp_path / "text")]
    assert phrasescore(["annotate", str(table), "-m", MODEL, "-o", "x", "--replace-last", "2.718", *sources]) == 1
    assert f"{table}, line 41, field 3 (scores): ends in 2.72 where" in capsys.readouterr().err


def test_replacing_does_not_go_with_keeping_faulty_lines(capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["annotate", str(MINI / "phrase-table.gz"), "-m", MODEL, "--replace-last", "1", "--on-error", "keep"]
    assert phrasescore(arguments) == 2
    assert "does not go with" in capsys.readouterr().err
