"""`phrasescore-smt text-table`."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest

from moses_integration.cli import main
from moses_integration.per_text.position_tags import tag_word
from tests.conftest import MINI

INI = str(MINI / "moses.ini")
EMBEDDED = ["--prepared", "--toolkit", "embedded", "--processes", "1"]


def test_a_text_is_indexed_and_translated(
    small_dev: tuple[Path, Path], tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    source, folder, outputs = str(small_dev[0]), tmp_path / "indexed", {}
    tuned = str(MINI / "moses.tuned.ini")
    index = ["text-table", INI, "--source", source, "--prepared", "-o", str(folder), "--weights", tuned]
    assert main(index) == 0
    lines = gzip.decompress((folder / "phrase-table.gz").read_bytes()).splitlines()
    count = len({line.split(b" ||| ")[0] for line in lines})
    assert capfd.readouterr().err == (
        f"{folder}/moses.ini: written, with {len(lines)} lines ({len(lines) / 12:.0f} a sentence) for {count} positions"
        f"; decode {folder}/text with it, by `phrasescore-smt decode --prepared`\n"
    )
    made = {path.name: path.read_bytes() for path in folder.iterdir()}
    assert made.keys() == {
        "moses.ini",
        "text",
        "text.json",
        "phrase-table.gz",
        "reordering-table.gz",
        ".phrasescore-work",
    }
    # Rerun into the same folder.
    assert main([*index, "-q"]) == 0
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == made
    for name, ini, text in (("plain", tuned, source), ("indexed", f"{folder}/moses.ini", f"{folder}/text")):
        out = tmp_path / f"{name}.out"
        assert main(["decode", ini, "--source", text, "-o", str(out), *EMBEDDED, "-q"]) == 0
        assert main(["strip-tags", str(out)]) == 0
        outputs[name] = capfd.readouterr()
    assert outputs["indexed"] == outputs["plain"]
    assert len(outputs["plain"].out.splitlines()) == 12


def test_an_empty_text(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "empty").touch()
    assert (
        main(["text-table", INI, "--source", str(tmp_path / "empty"), "--prepared", "-o", str(tmp_path / "indexed")])
        == 0
    )
    assert "written, with 0 lines for 0 positions" in capfd.readouterr().err


def test_tags_are_removed(tmp_path: Path) -> None:
    lines = [b"a %b b\n", b"\n", b"0 ||| a %b  ||| X= 1 ||| 1\n"]
    (tmp_path / "in").write_bytes(b"".join(lines).replace(b"%b", tag_word(b"word", 12, 3)))
    assert main(["strip-tags", str(tmp_path / "in"), "-o", str(tmp_path / "out")]) == 0
    assert (tmp_path / "out").read_bytes() == b"".join(lines).replace(b"%b", b"word")
