"""`phrasescore-smt decode`."""

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
    assert told.endswith("decoding: 100%, 12 of 12 sentences\n")
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


def test_a_text_is_what_its_words_are(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """A byte order mark is not part of the text, and text in another encoding gives a warning."""
    command = ["decode", str(MINI / "moses.ini"), "--prepared", "--processes", "1", "--toolkit", "embedded", "--source"]
    (tmp_path / "plain").write_text("the letter .\n")
    (tmp_path / "marked").write_text("the letter .\r\n", "utf-8-sig")
    (tmp_path / "latin").write_bytes(b"caf\xe9 the letter . the letter .")
    for name in ("plain", "marked", "latin"):
        assert main([*command, str(tmp_path / name), "-o", str(tmp_path / f"{name}.out")]) == 0
    assert (tmp_path / "marked.out").read_bytes() == (tmp_path / "plain.out").read_bytes()
    assert b"caf\xe9" in (tmp_path / "latin.out").read_bytes()
    told = capfd.readouterr().err.splitlines()
    assert [line[: line.index(";")] for line in told] == [
        f"{tmp_path}/latin: lines that are not UTF-8: 1, the first one 1"
    ]


@pytest.mark.parametrize("size", ["many", "0"])
def test_the_size_of_a_list_is_a_number(size: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["decode", "i", "--nbest", "f", size]) == 2
    assert f"--nbest: {size} is not a size of a list; give FILE SIZE" in capsys.readouterr().err
