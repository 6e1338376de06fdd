"""Input that Moses' decoder does not read as words is reported by line before scoring."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path
from unittest.mock import Mock

import pytest

from moses_integration.cli import main
from moses_integration.ini import MosesIni
from moses_integration.toolkits.installation import Installation
from moses_integration.toolkits.moses import MosesToolkit
from moses_integration.toolkits.moses_tables import require_moses_words
from phrasescore.errors import UserError
from tests.conftest import MINI
from tests.moses_integration.fake_moses import fake_moses

INI = str(MINI / "moses.ini")
REJECTED = ["[X]", "[a]", "[]", "[X][Y]", "[a]b]", "<seg id=1> dog </seg>", "<SEG>", '<dlt type="a"/>', "<Dlt />"]
WORDS = ["[", "]", "[[", "[x", "x]", "x[y]", "&#91;X&#93;", "seg", "<segment", "<dlt", "/>", "<b>"]


@pytest.mark.parametrize("text", REJECTED)
def test_input_that_moses_misreads_is_rejected(text: str) -> None:
    with pytest.raises(UserError, match=r"^text: line 2: has (`.+`, which Moses takes|a tag `<seg )"):
        require_moses_words([b"the dog", text.encode()], "text")


def test_words_with_brackets_are_words() -> None:
    require_moses_words([f"the {word} dog".encode() for word in WORDS], "text")
    # Moses looks for the tag at the beginning of a line.
    require_moses_words([b"the <seg>"], "text")


@pytest.mark.parametrize(("factors", "word"), [(1, "a|b"), (1, "|"), (1, "a|"), (2, "a"), (2, "a|b|c")])
def test_words_have_the_factors_that_moses_expects(factors: int, word: str) -> None:
    """Words must have the factors that Moses expects.

    Moses would translate `a|b` as `a`, and stop at `a` if words have two factors.
    """
    expected = "1 factor a word" if factors == 1 else "2 factors a word"
    with pytest.raises(UserError, match=rf"line 1: has `{re.escape(word)}`, where Moses expects {expected}"):
        require_moses_words([word.encode()], "text", factors)
    require_moses_words([b"|".join([b"a"] * factors)], "text", factors)


@pytest.mark.moses
@pytest.mark.parametrize("text", [*REJECTED, *WORDS])
def test_moses_reads_others_as_words(moses_home: Path, text: str) -> None:
    """Moses reads all other lines as words: it copies an unknown word of every line that is not rejected."""
    command: list[str | Path] = [moses_home / "bin/moses", "-f", "moses.ini", "-v", "0"]
    done = subprocess.run(command, input=f"{text}\n".encode(), capture_output=True, check=False, cwd=MINI)
    is_copied = done.returncode == 0 and sorted(done.stdout.split()) == sorted(text.encode().split())
    assert is_copied == (text in WORDS)


def test_a_real_moses_gets_no_such_text(
    small_dev: tuple[Path, Path],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Neither `decode` nor `tune` gives such text to a real Moses; the embedded toolkit translates it."""
    monkeypatch.setenv("MOSES_HOME", str(fake_moses(tmp_path / "moses")))
    monkeypatch.setattr("moses_integration.toolkits.moses.run_step", Mock(side_effect=AssertionError))
    source, reference = tmp_path / "source", str(small_dev[1])
    source.write_text(small_dev[0].read_text().replace("\n", " [X]\n", 2))
    text = ["--source", str(source), "--prepared", "-q", "--processes", "1", "--toolkit"]
    networks = tmp_path / "networks.ini"
    networks.write_bytes(b"[inputtype]\n1\n" + MosesIni.read(Path(INI)).with_absolute_paths().to_bytes())
    assert main(["decode", str(networks), *text, "moses"]) == 1
    assert ": confusion networks have several lines for a sentence" in capsys.readouterr().err
    for command in (
        ["decode", INI, "-o", str(tmp_path / "out")],
        ["tune", INI, "-o", str(tmp_path / "tuned.ini"), "--reference", reference],
    ):
        assert main([*command, *text, "moses"]) == 1
        assert f"{source}: line 1: has `[X]`, which Moses takes for a non-terminal" in capsys.readouterr().err
    assert main(["decode", INI, "-o", str(tmp_path / "out"), *text, "embedded"]) == 0
    assert (tmp_path / "out").read_text().count("[X]") == 2


def test_alternatives_in_xml_are_no_factors(tmp_path: Path) -> None:
    (tmp_path / "source").write_text('the <np translation="maison||logis">house</np>\n')
    toolkit = MosesToolkit(Installation(fake_moses(tmp_path / "moses")), 1)
    ini = MosesIni.read(Path(INI))
    with pytest.raises(UserError, match="where Moses expects 1 factor a word"):
        toolkit.check(ini, tmp_path / "source", tmp_path, tunes=False)
    ini.set_values("xml-input", ["exclusive"])
    toolkit.check(ini, tmp_path / "source", tmp_path, tunes=False)
