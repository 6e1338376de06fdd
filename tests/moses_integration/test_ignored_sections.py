"""Sections of a moses.ini that affect only Moses' input, output or server are ignored."""

from __future__ import annotations

from pathlib import Path

import pytest

from moses_integration.cli import main
from moses_integration.decoder.settings import read_settings
from moses_integration.ini import IGNORED, MosesIni
from tests.conftest import MINI

SECTIONS = (
    "\n[n-best-list]\nlists\n100\n[show-weights]\ntrue\n[include-segmentation-in-n-best]\ntrue\n"
    "[print-alignment-info-in-n-best]\ntrue\n[report-segmentation]\n1\n[print-id]\nfalse\n"
    "[input-file]\nother\n[server]\ntrue\n"
)


@pytest.fixture
def moses_ini(tmp_path: Path) -> Path:
    ini = MosesIni.read(MINI / "moses.ini").with_absolute_paths()
    path = tmp_path / "moses.ini"
    path.write_bytes(ini.to_bytes() + SECTIONS.encode())
    return path


def test_one_line_names_them(moses_ini: Path) -> None:
    assert MosesIni.read(moses_ini).notes == [
        f"{moses_ini}: ignores sections that affect only Moses' input, output or server: [n-best-list], "
        "[show-weights], [include-segmentation-in-n-best], [print-alignment-info-in-n-best], [report-segmentation], "
        "[print-id], [input-file], [server]"
    ]


def test_the_embedded_decoder_ignores_them(tmp_path: Path) -> None:
    (tmp_path / "all.ini").write_text("".join(f"[{section}]\n1\n" for section in sorted(IGNORED)))
    (tmp_path / "none.ini").touch()
    found, expected = (read_settings(MosesIni.read(tmp_path / name)) for name in ("all.ini", "none.ini"))
    assert found == expected


@pytest.mark.parametrize("toolkit", ["embedded", pytest.param("moses", marks=pytest.mark.moses)])
def test_decode_translates_as_without_them(
    toolkit: str, moses_ini: Path, capfd: pytest.CaptureFixture[str], request: pytest.FixtureRequest
) -> None:
    """`decode` ignores these sections; Moses would print weights instead of translations, or wait for clients."""
    if toolkit == "moses":
        request.getfixturevalue("moses_home")
    outputs = []
    for ini in (moses_ini, MINI / "moses.ini"):
        command = ["decode", str(ini), "--source", str(MINI / "test.en"), "--prepared", "--toolkit", toolkit]
        assert main([*command, "--processes", "1"]) == 0
        captured = capfd.readouterr()
        assert ("only Moses' input, output or server" in captured.err) == (ini == moses_ini)
        outputs.append(captured.out)
    assert outputs[0] == outputs[1] != ""
