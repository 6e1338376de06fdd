"""`phrasescore-smt add-lm`."""

from __future__ import annotations

from pathlib import Path

from moses_integration.cli import main
from moses_integration.ini import MosesIni
from tests.conftest import MINI
from tests.experiments.test_speed import system


def test_the_cache_has_the_size_asked_for_and_keeps_it(tmp_path: Path) -> None:
    system(tmp_path)
    output, cache = tmp_path / "added.ini", tmp_path / "scores"
    command = ["add-lm", str(MINI / "moses.ini"), "--model", str(tmp_path / "cslm"), "-o", str(output)]
    for size in ("3", "1"):
        assert main([*command, "--cache", str(cache), "--cache-size", size]) == 0
        assert cache.stat().st_size == 64 + (4 << 20)
    ini = MosesIni.read(output)
    assert ini.path_of(ini.feature("CSLM0"), "cache").samefile(cache)
