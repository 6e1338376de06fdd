"""Warnings about text that is probably unintended: their exact wording, and inputs that only some commands have.

`tests/faults/test_silence.py` tests that every command that reads text gives these warnings.
"""

from __future__ import annotations

import gzip
from collections.abc import Callable
from pathlib import Path

import pytest

from moses_integration.cli import main as phrasescore_smt
from moses_integration.ini import MosesIni
from phrasescore.cli import main as phrasescore
from tests.conftest import MINI

PROGRAMS: dict[str, Callable[[list[str]], int]] = {"phrasescore": phrasescore, "phrasescore-smt": phrasescore_smt}
INI = str(MINI / "moses.tuned.ini")
SMALL = ("--hidden", "4", "--set", "model.embedding=3", "--max-updates", "1", "--device", "cpu")
TRAIN = ("phrasescore", "train", "--source", "train.en", "--target", "train.fr", "-o", "out", *SMALL)
DEV = ("--source", "dev.en", "--reference", "dev.fr", "--prepared")
BUILD = (
    *("phrasescore-smt", "build", "--source", "train.en", "--target", "train.fr", "-o", "out"),
    *("--tokenised", "--escaped", "--order", "2", "--toolkit", "embedded", "--processes", "1", "--aligner", "ibm1"),
)
TUNE = ("phrasescore-smt", "tune", INI, *DEV, "-o", "out", "--iterations", "2", "--nbest", "5", "--processes", "1")


@pytest.fixture
def texts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Change to a folder with 60 training pairs and 12 test pairs of the mini corpus."""
    for name, count in (("train.en", 60), ("train.fr", 60), ("train.align", 60), ("dev.en", 12), ("dev.fr", 12)):
        lines = (MINI / name).read_bytes().splitlines(keepends=True)
        (tmp_path / name).write_bytes(b"".join(lines[:count]))
    monkeypatch.chdir(tmp_path)
    return tmp_path


def warnings_of(command: tuple[str, ...], capsys: pytest.CaptureFixture[str], code: int = 0) -> str:
    """Run a command; return its standard error."""
    capsys.readouterr()
    found = PROGRAMS[command[0]]([*command[1:]])
    said = capsys.readouterr().err
    assert found == code, said
    return said


def blank_lines(path: Path, *numbers: int) -> None:
    """Replace lines, counted from 1, with spaces."""
    lines = path.read_text().splitlines()
    for number in numbers:
        lines[number - 1] = " "
    path.write_text("\n".join(lines) + "\n")


# Lines that are empty on one side only

PAIRS = {
    "tune": (TUNE, "dev"),
    "estimate-gain": (
        ("phrasescore-smt", "estimate-gain", "asked.ini", *DEV, "--nbest", "5", "--processes", "1"),
        "dev",
    ),
    "train, validation": ((*TRAIN, "--validation-source", "dev.en", "--validation-target", "dev.fr"), "dev"),
    "build, validation": ((*BUILD, "--validation", "dev.en", "dev.fr"), "dev"),
}


@pytest.mark.parametrize("name", PAIRS)
def test_lines_that_are_empty_on_one_side_only(
    name: str, texts: Path, capsys: pytest.CaptureFixture[str], no_moses: None
) -> None:
    command, text = PAIRS[name]
    if name == "estimate-gain":
        asked = MosesIni.read(Path(INI)).with_absolute_paths()
        asked.set_weights({"WordPenalty0": [0.0]})
        asked.write(texts / "asked.ini")
    said = f"{text}.en and {text}.fr: 2 lines are empty on one side only, the first is line 3; check that"
    blank_lines(texts / f"{text}.fr", 3, 5, 7)
    blank_lines(texts / f"{text}.en", 7)
    # `estimate-gain` also reports too few sentences.
    assert warnings_of(command, capsys, code=int(name == "estimate-gain")).count(said) == 1


def test_whole_pairs_are_no_fault(texts: Path, capsys: pytest.CaptureFixture[str], no_moses: None) -> None:
    for name in ("dev.en", "dev.fr"):
        blank_lines(texts / name, 2)
    assert "empty on one side" not in warnings_of(TUNE, capsys)


# Sentence markers and field separators as words

TRANSLATOR = (
    *("train", "--source", "train.en", "--target", "train.fr", "-o", "model", "--preset", "plain", *SMALL),
    *("--set", "data.held_out=0", "-q"),
)
LM_TRAIN = (
    *("phrasescore", "lm", "train", "train.fr", "-o", "out", "--order", "2", "--max-updates", "1", "--device", "cpu"),
    *("--set", "model.embedding=3", "--set", "model.first_hidden=3", "--set", "model.second_hidden=3"),
)
DECODE = ("phrasescore-smt", "decode", INI, "--source", "dev.en", "-o", "out", "--prepared", "--processes", "1")
VALIDATION = {
    "train": (*TRAIN, "--validation-source", "dev.en", "--validation-target", "dev.fr"),
    "lm train": (*LM_TRAIN, "--validation", "dev.fr"),
}
UNUSUAL = {
    "<s> {} </s>": "a sentence mark, <s> or </s>, at an end, which is taken for a word; ",
    "{0} ||| {0}": "`|||`, which is taken for a word; give the text of one",
}


@pytest.mark.parametrize("form", UNUSUAL)
@pytest.mark.parametrize("name", VALIDATION)
def test_marks_and_separators_as_words_of_validation_text(
    name: str, form: str, texts: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    lines = (texts / "dev.fr").read_text().splitlines()
    (texts / "dev.fr").write_text("".join(f"{form.format(line)}\n" for line in lines))
    said = f"dev.fr: 12 of 12 lines have {UNUSUAL[form]}"
    assert warnings_of(VALIDATION[name], capsys).count(said) == 1


def test_a_sentence_about_marks_is_no_fault(texts: Path, capsys: pytest.CaptureFixture[str]) -> None:
    lines = (texts / "train.fr").read_text().splitlines()
    lines[5] = "<s> ||| </s>"
    (texts / "train.fr").write_text("\n".join(lines) + "\n")
    assert "taken for a word" not in warnings_of(LM_TRAIN, capsys)


def test_pairs_that_build_drops(texts: Path, capsys: pytest.CaptureFixture[str], no_moses: None) -> None:
    kept = [
        max(map(len, map(str.split, pair))) <= 7
        for pair in zip(*((texts / f"train.{side}").read_text().splitlines() for side in ("en", "fr")), strict=True)
    ].count(True)
    assert 3 < kept < 60
    said = f"train.en and train.fr: {kept} of 60 pairs kept ({60 - kept} too long)\n"
    assert said in warnings_of((*BUILD, "--longest-sentence", "7"), capsys)
    blank_lines(texts / "train.en", *range(1, 59))
    said = warnings_of(BUILD, capsys, code=1)
    assert "train.en: has too few sentence pairs with train.fr that are fit for training: 2 of 60 pairs kept" in said


# Text that cannot be translated

FOREIGN = {
    "translate": ("phrasescore", "translate", "-m", "model", "dev.en", "-o", "out", "--device", "cpu"),
    "decode": DECODE,
}


@pytest.mark.parametrize("name", FOREIGN)
def test_text_that_cannot_be_translated(
    name: str, texts: Path, capsys: pytest.CaptureFixture[str], no_moses: None
) -> None:
    if name == "translate":
        assert phrasescore([*TRANSLATOR]) == 0
    model = "network" if name == "translate" else "phrase table"
    assert "unknown to" not in warnings_of(FOREIGN[name], capsys)
    words = (texts / "dev.en").read_text().upper().split()
    (texts / "dev.en").write_text((texts / "dev.en").read_text().upper())
    unknown = sum(word.lower() != word for word in words)
    said = f"dev.en: {unknown} of {len(words)} source words ({unknown / len(words):.0%}) are unknown to the {model} and"
    assert said in warnings_of(FOREIGN[name], capsys)


def test_an_empty_table_translates_nothing(texts: Path, capsys: pytest.CaptureFixture[str], no_moses: None) -> None:
    (texts / "empty.gz").write_bytes(gzip.compress(b""))
    ini = MosesIni.read(Path(INI)).with_absolute_paths()
    ini.set_argument("TranslationModel0", "path", str(texts / "empty.gz"))
    ini.write(texts / "empty.ini")
    said = warnings_of((*DECODE[:2], "empty.ini", *DECODE[3:]), capsys)
    assert "source words (100%) are unknown to the phrase table and cannot be translated; check" in said


# Errors name the file that the user gave


@pytest.mark.parametrize("copies", [1, 5])
def test_text_of_which_no_word_can_be_aligned(
    copies: int, texts: Path, capsys: pytest.CaptureFixture[str], no_moses: None
) -> None:
    for name in ("train.en", "train.fr"):
        (texts / name).write_text(copies * f"{(texts / name).read_text().splitlines()[0]}\n")
    said = warnings_of(BUILD, capsys, code=1)
    assert "build: train.en: no word could be aligned with train.fr; give more sentence pairs" in said
    assert ".building" not in said


def test_a_table_that_is_there_with_another_ending(
    texts: Path, capsys: pytest.CaptureFixture[str], no_moses: None
) -> None:
    """A missing table gives the name of the existing `.gz` file, because Moses' EMS omits the suffix."""
    ini = MosesIni.read(Path(INI)).with_absolute_paths()
    ini.set_argument("TranslationModel0", "path", str(MINI / "phrase-table"))
    ini.write(texts / "ems.ini")
    said = f"{MINI}/phrase-table: does not exist, but the ini names it; name {MINI}/phrase-table.gz, which exists\n"
    assert warnings_of((*DECODE[:2], "ems.ini", *DECODE[3:]), capsys, code=1).endswith(said)
    check = ("phrasescore", "check", str(MINI / "phrase-table"))
    assert warnings_of(check, capsys, code=1).endswith(f"directory); give {MINI}/phrase-table.gz, which is there\n")
