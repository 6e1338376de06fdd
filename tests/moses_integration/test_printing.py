"""Sections of a moses.ini that change only what Moses prints are ignored."""

from __future__ import annotations

from pathlib import Path

import pytest

from moses_integration.cli import decoder, main
from moses_integration.decoder.settings import read_settings
from moses_integration.ini import PRINTING, MosesIni
from tests.conftest import MINI

SECTIONS = (
    "\n[n-best-list]\nlists\n100\n[show-weights]\ntrue\n[include-segmentation-in-n-best]\ntrue\n"
    "[print-alignment-info-in-n-best]\ntrue\n[report-segmentation]\n1\n[print-id]\nfalse\n"
)


@pytest.fixture
def printing(tmp_path: Path) -> Path:
    ini = MosesIni.read(MINI / "moses.ini").with_absolute_paths()
    path = tmp_path / "moses.ini"
    path.write_bytes(ini.to_bytes() + SECTIONS.encode())
    return path


def test_one_line_names_them(printing: Path) -> None:
    assert MosesIni.read(printing).notes == [
        f"{printing}: [n-best-list], [show-weights], [include-segmentation-in-n-best], "
        "[print-alignment-info-in-n-best], [report-segmentation] change only what Moses prints; ignored"
    ]


def test_no_section_without_effect_is_named(tmp_path: Path) -> None:
    text = "".join(f"[{section}]\n{value}\n" for section, value in PRINTING.items())
    (tmp_path / "moses.ini").write_text(text)
    ini = MosesIni.read(tmp_path / "moses.ini")
    assert not ini.notes
    read_settings(ini)


@pytest.mark.parametrize("toolkit", ["embedded", pytest.param("moses", marks=pytest.mark.moses)])
def test_decode_translates_as_without_them(
    toolkit: str, printing: Path, capfd: pytest.CaptureFixture[str], request: pytest.FixtureRequest
) -> None:
    """Moses itself would print weights in place of translations."""
    if toolkit == "moses":
        request.getfixturevalue("moses_home")
    outputs = []
    for ini in (printing, MINI / "moses.ini"):
        command = ["decode", str(ini), "--source", str(MINI / "test.en"), "--prepared", "--toolkit", toolkit]
        assert main([*command, "--processes", "1"]) == 0
        captured = capfd.readouterr()
        assert ("only what Moses prints" in captured.err) == (ini == printing)
        outputs.append(captured.out)
    assert outputs[0] == outputs[1] != ""


def test_the_decoder_alone(printing: Path, capfd: pytest.CaptureFixture[str]) -> None:
    text = printing.with_name("text")
    text.write_text("the black wolf .\n")
    assert decoder.main(["-f", str(printing), "-i", str(text)]) == 0
    captured = capfd.readouterr()
    assert captured.out.count("\n") == 1
    assert "[report-segmentation] change only what Moses prints; ignored" in captured.err
    assert not Path("lists").exists()
