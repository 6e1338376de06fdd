"""`phrasescore-smt add-lm`."""

from __future__ import annotations

from pathlib import Path

import pytest

from moses_integration.cli import main
from moses_integration.ini import MosesIni
from tests.conftest import MINI
from tests.moses_integration.mini_system import mini_system


def test_the_cache_has_the_size_asked_for_and_keeps_it(tmp_path: Path) -> None:
    mini_system(tmp_path)
    output, cache = tmp_path / "added.ini", tmp_path / "scores"
    command = ["add-lm", str(MINI / "moses.ini"), "--model", str(tmp_path / "cslm"), "-o", str(output)]
    for size in ("3", "1"):
        assert main([*command, "--cache", str(cache), "--cache-size", size]) == 0
        assert cache.stat().st_size == 64 + (4 << 20)
    ini = MosesIni.read(output)
    assert ini.path_of(ini.feature("CSLM0"), "cache").samefile(cache)


def test_a_failure_leaves_no_cache(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    mini_system(tmp_path)
    before = sorted(tmp_path.rglob("*"))
    command = ["add-lm", str(MINI / "moses.ini"), "-o", str(tmp_path / "added.ini")]
    model, cache = str(tmp_path / "cslm"), str(tmp_path / "scores")
    for arguments, message in (
        (["--model", model, "--cache", f"{cache} b"], "a space ends a value"),
        (["--model", str(tmp_path), "--cache", cache], "is not a model folder"),
    ):
        assert main([*command, *arguments, "--cache-size", "1"]) == 1
        assert message in capsys.readouterr().err
        assert sorted(tmp_path.rglob("*")) == before
    assert main([*command, "--model", model]) == 0
    assert f"as CSLM0, backed off by {MINI / 'lm.fr.arpa'}" in capsys.readouterr().err
    assert main(["add-lm", str(tmp_path / "added.ini"), "-o", str(tmp_path / "two.ini"), "--model", model]) == 0
    assert "as CSLM1, backed off by" in capsys.readouterr().err


def test_the_size_of_no_cache_is_wrong_usage(capsys: pytest.CaptureFixture[str]) -> None:
    command = ["add-lm", str(MINI / "moses.ini"), "--model", "cslm", "-o", "added.ini", "--cache-size", "1"]
    assert main(command) == 2
    assert "--cache-size: is the size of a file of scores; give --cache, too" in capsys.readouterr().err
