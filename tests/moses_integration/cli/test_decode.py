"""`phrasescore-smt decode`."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest

from moses_integration.cli import main
from moses_integration.ini import MosesIni
from moses_integration.nbest import NbestEntry, read_nbest
from phrasescore.cli import console
from tests.conftest import MINI
from tests.forked import ForkedPopen
from tests.moses_integration.cli.running import sentence_of
from tests.moses_integration.decoder.searching import WEIGHTS
from tests.moses_integration.decoder.small_system import Line, SmallSystem

INI = MINI / "moses.ini"


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


def test_a_text_in_another_encoding_is_reported(tmp_path: Path, capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    command = ["decode", str(MINI / "moses.ini"), "--prepared", "--processes", "1", "--toolkit", "embedded", "--source"]
    (tmp_path / "latin").write_bytes(b"caf\xe9 the letter . the letter .")
    assert main([*command, str(tmp_path / "latin")]) == 0
    translation, told = capfdbinary.readouterr()
    assert b"caf\xe9" in translation
    assert told.decode().startswith(f"{tmp_path}/latin: lines that are not UTF-8: 1, the first is line 1;")
    assert told.count(b"\n") == 1


@pytest.mark.parametrize("size", ["many", "0"])
def test_the_size_of_a_list_is_a_number(size: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["decode", "i", "--nbest", "f", size]) == 2
    assert f"--nbest: {size} is not a size of a list; give FILE SIZE" in capsys.readouterr().err


# Translations and n-best lists


@pytest.fixture
def text(tmp_path: Path) -> Path:
    """Nine sentences, enough for two processes; the last one is empty."""
    path = tmp_path / "text"
    path.write_bytes(b"".join((MINI / "dev.en").read_bytes().splitlines(keepends=True)[:8]) + b"\n")
    return path


def decoded(
    ini: Path, text: Path, nbest: Path, size: int, toolkit: str = "embedded", processes: int = 1
) -> tuple[list[bytes], list[NbestEntry]]:
    """Return the translations and the entries of the n-best list."""
    output = nbest.with_name("translations")
    command = ["decode", str(ini), "--source", str(text), "--prepared", "-o", str(output), "-q"]
    command += ["--toolkit", toolkit, "--processes", str(processes)]
    assert main([*command, "--nbest", str(nbest), str(size)]) == 0
    return output.read_bytes().splitlines(), list(read_nbest(nbest))


def test_a_list_has_the_best_distinct_translations(text: Path, tmp_path: Path) -> None:
    translations, entries = decoded(INI, text, tmp_path / "nbest.gz", 3)
    best = {entry.sentence: entry.words for entry in reversed(entries)}
    assert [best[number] for number in range(9)] == translations
    assert len({(entry.sentence, entry.words) for entry in entries}) == len(entries)
    assert max(Counter(entry.sentence for entry in entries).values()) == 3
    # An empty sentence has one entry, whose values are zeros.
    assert not any(value for values in entries[-1].features().values() for value in values)
    assert (entries[-1].words, entries[-1].total) == (b"", b"0")


def test_the_output_is_identical_for_several_processes(text: Path, tmp_path: Path) -> None:
    assert decoded(INI, text, tmp_path / "one", 5) == decoded(INI, text, tmp_path / "two", 5, processes=2)


@pytest.mark.moses
def test_an_empty_line_is_listed_as_by_a_real_moses(moses_home: Path, text: Path, tmp_path: Path) -> None:
    lists = [decoded(INI, text, tmp_path / toolkit, 1, toolkit)[1] for toolkit in ("moses", "embedded")]
    assert lists[0][8] == lists[1][8]
    assert (tmp_path / "moses").read_bytes().splitlines()[8] == (tmp_path / "embedded").read_bytes().splitlines()[8]


@pytest.mark.moses
@pytest.mark.parametrize("last", ["zzz", "letter"])
def test_scores_with_dropped_words_are_those_of_a_real_moses(moses_home: Path, last: str, tmp_path: Path) -> None:
    ini = MosesIni.read(INI).with_absolute_paths()
    ini.append("drop-unknown", "true")
    ini.write(tmp_path / "moses.ini")
    (tmp_path / "text").write_text(f"the red child zzz {last}\n")
    lists = [
        decoded(tmp_path / "moses.ini", tmp_path / "text", tmp_path / f"{toolkit}.nbest", 5, toolkit)[1]
        for toolkit in ("moses", "embedded")
    ]
    theirs, ours = ({entry.words: entry for entry in entries} for entries in lists)
    assert len(theirs.keys() & ours.keys()) >= 4
    for words in theirs.keys() & ours.keys():
        assert float(ours[words].total) == pytest.approx(float(theirs[words].total), abs=1e-4)
        assert ours[words].features()["LM0"] == pytest.approx(theirs[words].features()["LM0"], abs=1e-4)


@pytest.mark.parametrize(("section", "expected"), [("", b"zz A"), ("false", b"zz A"), ("true", b"A")])
def test_unknown_words(section: str, expected: bytes, tmp_path: Path) -> None:
    """[drop-unknown] decides whether unknown words are dropped; tabs and several spaces separate words, too."""
    system = SmallSystem([Line((b"a",), (b"A",), (0.5,))], WEIGHTS, distortion_limit=0)
    replace(system, settings={"drop-unknown": section}).write(tmp_path)
    (tmp_path / "text").write_bytes(b"\tzz  a \r\n")
    assert decoded(tmp_path / "moses.ini", tmp_path / "text", tmp_path / "nbest", 1)[0] == [expected]


# Failures


def test_a_stopped_command_leaves_nothing(tmp_path: Path) -> None:
    (tmp_path / "text").write_bytes((MINI / "dev.en").read_bytes() * 50)
    command = ["phrasescore-smt", "decode", str(INI), "--prepared", "--toolkit", "embedded", "--processes", "2", "-q"]
    command += ["--source", f"{tmp_path}/text", "-o", f"{tmp_path}/out", "--nbest", f"{tmp_path}/list", "50"]
    pipe = subprocess.PIPE
    with ForkedPopen(command, os.environ, stdout=pipe, stderr=pipe) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        while not any(tmp_path.glob(".list.tmp")):
            assert process.poll() is None
            time.sleep(0.01)
        time.sleep(1)
        process.send_signal(signal.SIGTERM)
        # Workers inherit both streams, so this waits for them too.
        process.stdout.read()
        assert process.stderr.read() == b""
        assert process.wait(60) == 143
    assert [path.name for path in tmp_path.iterdir()] == ["text"]


def test_errors_in_workers_are_reported(text: Path, tmp_path: Path, capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    SmallSystem([Line((b"the",), (b"A",), (0.5, 0.5))], WEIGHTS).write(tmp_path)
    command = ["decode", str(tmp_path / "moses.ini"), "--source", str(text), "--prepared", "-q"]
    code = main([*command, "--toolkit", "embedded", "--processes", "2"])
    sentence = sentence_of(code, capfdbinary.readouterr().err)
    assert sentence.startswith(f"phrasescore-smt decode: {tmp_path}/table: line 1: has 2 scores")
