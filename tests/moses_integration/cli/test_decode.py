"""Translating a text from the command line."""

from __future__ import annotations

from pathlib import Path

import pytest

from moses_integration.cli import main
from phrasescore.cli import console
from tests.conftest import MINI


def test_it_tells_how_far_it_is(
    small_dev: tuple[Path, Path], capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(console, "_SECONDS_BETWEEN_LINES", 0.0)
    command = ["decode", str(MINI / "moses.ini"), "--source", str(small_dev[0]), "--prepared", "--processes", "1"]
    assert main([*command, "--toolkit", "embedded"]) == 0
    translations, told = capfd.readouterr()
    assert len(translations.splitlines()) == len(told.splitlines()) == 12
    assert told.endswith("decoding: 100%, 0 min left, 12 of 12 sentences\n")
    assert main([*command, "--toolkit", "embedded", "-q"]) == 0
    assert capfd.readouterr() == (translations, "")


def test_a_bar_does_not_stand_among_translations(
    small_dev: tuple[Path, Path], capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(console, "_SECONDS_BETWEEN_LINES", 0.0)
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    command = ["decode", str(MINI / "moses.ini"), "--source", str(small_dev[0]), "--prepared", "--processes", "1"]
    assert main([*command, "--toolkit", "embedded"]) == 0
    assert capfd.readouterr().err == ""
