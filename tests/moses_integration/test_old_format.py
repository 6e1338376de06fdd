"""Conversion of moses.ini files in Moses' old format."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from moses_integration.cli import main
from moses_integration.decoder.declaration import declare_model
from moses_integration.ini import MosesIni
from phrasescore.errors import UserError
from tests.conftest import MINI

OLD = """\
# a system of before 2013
[ttable-file]
0 0 0 4 phrase-table.gz
[ttable-limit]
20
[lmodel-file]
8 0 3 lm.fr.arpa # of the target language
[distortion-file]
0-0 wbe-msd-bidirectional-fe-allff 6 reordering-table.wbe-msd-bidirectional-fe.gz
[weight-t]
0.2
0.2
0.2
0.2
[weight-l]
0.5
[weight-d]
0.3
0.3
0.3
0.3
0.3
0.3
0.3
[weight-w]
-1
[weight-p]
0.2
[distortion-limit]
6
[input-factors]
0
[mapping]
T 0
"""


@pytest.fixture
def old(tmp_path: Path) -> Path:
    for name in ("phrase-table.gz", "lm.fr.arpa", "reordering-table.wbe-msd-bidirectional-fe.gz"):
        (tmp_path / name).symlink_to(MINI / name)
    path = tmp_path / "moses.ini"
    path.write_text(OLD)
    return path


def test_features_and_weights(old: Path) -> None:
    ini = MosesIni.read(old)
    assert [(feature.label, feature.width) for feature in ini.features()] == [
        ("KENLM0", 1),
        ("Distortion0", 1),
        ("LexicalReordering0", 6),
        ("PhrasePenalty0", 1),
        ("WordPenalty0", 1),
        ("UnknownWordPenalty0", 1),
        ("PhraseDictionaryMemory0", 4),
    ]
    assert ini.weights() == {
        "PhraseDictionaryMemory0": [0.2] * 4,
        "KENLM0": [0.5],
        "LexicalReordering0": [0.3] * 6,
        "WordPenalty0": [-1],
        "PhrasePenalty0": [0.2],
        "Distortion0": [0.3],
    }
    assert ini.feature("PhraseDictionaryMemory0").arguments["table-limit"] == "20"
    assert ini.notes == [f"{old}: has Moses' old format; its models and weights are converted like in Moses"]


def test_lines_keep_their_numbers(old: Path) -> None:
    ini = MosesIni.read(old)
    assert ini.lines[0] == "# a system of before 2013\n"
    assert ini.location("weight", "KENLM0=") == f"{old}: line 16"
    old.write_text(OLD.replace("8 0 3 lm.fr.arpa", "8 0 3 lm.en.arpa"))
    with pytest.raises(UserError, match=r"moses\.ini: line 7: path=lm\.en\.arpa does not exist"):
        MosesIni.read(old).require_files()


def test_decoding(old: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """Translations and scores equal those of the system in the current format."""
    lists = old.with_name("lists")
    outputs, entries = [], []
    for ini in (old, MINI / "moses.ini"):
        command = ["decode", str(ini), "--source", str(MINI / "test.en"), "--prepared", "--toolkit", "embedded"]
        assert main([*command, "--processes", "1", "--nbest", str(lists), "5"]) == 0
        captured = capfd.readouterr()
        outputs.append(captured.out)
        entries.append(
            [line.split(b" ||| ")[:2] + line.split(b" ||| ")[3:] for line in lists.read_bytes().splitlines()]
        )
        if ini == old:
            assert f"{old}: has Moses' old format" in captured.err
    assert outputs[0] == outputs[1]
    assert entries[0] == entries[1]


def test_files_have_the_current_format(old: Path) -> None:
    ini = MosesIni.read(old)
    ini.set_weights({"KENLM0": [0.7]})
    ini.write(old.with_name("new.ini"))
    new = MosesIni.read(old.with_name("new.ini"))
    assert not new.notes
    assert new.weights() == {**MosesIni.read(old).weights(), "KENLM0": [0.7]}


@pytest.mark.moses
def test_moses_has_the_same_weights(moses_home: Path, old: Path) -> None:
    """Moses reads the same weights in the same order from the old ini and the converted one."""
    MosesIni.read(old).write(old.with_name("new.ini"))
    shown = []
    for ini in (old, old.with_name("new.ini")):
        command = [str(moses_home / "bin/moses"), "-f", str(ini), "-show-weights"]
        run = subprocess.run(command, cwd=old.parent, check=True, capture_output=True)
        shown.append(run.stdout.decode().splitlines())
    assert shown[0] == shown[1]
    assert "KENLM0= 0.500000" in shown[0]


def convert(text: str, tmp_path: Path) -> MosesIni:
    (tmp_path / "moses.ini").write_text(text)
    return MosesIni.read(tmp_path / "moses.ini")


def test_several_models_of_all_kinds(tmp_path: Path) -> None:
    """Several models of all kinds get their weights in order.

    One limit applies to all tables.
    """
    ini = convert(
        "[ttable-file]\n0 0 0 1 a\n12 0 0 2 b\n0 1 1 1 c\n[ttable-limit]\n10\n[weight-t]\n1\n2\n3\n4\n"
        "[lmodel-file]\n9 0 3 d\n0 0 5 e\n[weight-l]\n5\n7\n[weight-u]\n9\n",
        tmp_path,
    )
    assert [
        f"{one.kind} {one.label} {' '.join('='.join(pair) for pair in one.arguments.items())}" for one in ini.features()
    ] == [
        "KENLM KENLM0 name=KENLM0 num-features=1 load=lazy path=d factor=0 order=3",
        "SRILM SRILM0 name=SRILM0 num-features=1 path=e factor=0 order=5",
        "WordPenalty WordPenalty0 ",
        "UnknownWordPenalty UnknownWordPenalty0 ",
        "PhraseDictionaryMemory PhraseDictionaryMemory0 name=PhraseDictionaryMemory0 num-features=1 path=a "
        "input-factor=0 output-factor=0 table-limit=10",
        "PhraseDictionaryCompact PhraseDictionaryCompact0 name=PhraseDictionaryCompact0 num-features=2 path=b "
        "input-factor=0 output-factor=0 table-limit=10",
        "PhraseDictionaryMemory PhraseDictionaryMemory1 name=PhraseDictionaryMemory1 num-features=1 path=c "
        "input-factor=1 output-factor=1 table-limit=10",
    ]
    assert ini.weights() == {
        "PhraseDictionaryMemory0": [1],
        "PhraseDictionaryCompact0": [2, 3],
        "PhraseDictionaryMemory1": [4],
        "KENLM0": [5],
        "SRILM0": [7],
        "UnknownWordPenalty0": [9],
    }


@pytest.mark.parametrize(
    ("before", "after", "message"),
    [
        (
            "[input-factors]",
            "[feature]\nDistortion\n[x]",
            r"line 32: \[feature\] has Moses' current format, \[ttable",
        ),
        ("[weight-p]", "[weight-i]\n1\n[x]", r"line 28: \[weight-i\] has Moses' old .* is not supported; convert"),
        ("[weight-p]", "[weight-generation]\n1\n[x]", r"line 28: \[weight-generation\] has .* is not supported; conv"),
        ("[weight-p]", "[lmodel-oov-feature]\n1\n[x]", r"line 28: \[lmodel-oov-feature\] has .* is not supported; co"),
        ("0 0 0 4 phr", "0 0 4 phr", r"line 3: is not a supported model of \[ttable-file\]; fix"),
        ("0 0 0 4 phr", "99 0 0 4 phr", r"line 3: is not a supported model of \[ttable-file\]"),
        ("0 0 0 4 phr", "0 0 0 4.5 phr", r"line 3: is not a supported model of \[ttable-file\]"),
        ("0-0 wbe", "0 wbe", r"line 9: is not a supported model of \[distortion-file\]"),
        (
            "0 0 0 4 phrase-table.gz",
            "0 0 0 1 a\n0 0 0 1 b\n0 0 0 2 c\n[ttable-limit]\n9",
            r"line 7: .* has 2 limits for 3 tables; give one for",
        ),
        ("0 0 0 4 phr", "0 0 0 5 phr", r"\[weight-t\] has 4 weights for the 5 scores of PhraseDictionaryMemory0; give"),
        (
            "0 0 0 4 phr",
            "0 0 0 3 phr",
            r"line 14: \[weight-t\] has more weights than its models have scores; remove the",
        ),
        ("[weight-l]\n0.5", "[weight-l]\n0.5 0.5", r"line 16: \[weight-l\] is not a number; fix the line"),
        ("[weight-w]\n-1", "[weight-w]\n-1\n-2", r"line 27: \[weight-w\] has more weights than"),
        ("[weight-d]", "[x]", r"\[weight-d\] has 0 weights for the 6 scores of LexicalReordering0; give one"),
    ],
)
def test_values_that_cannot_be_converted(before: str, after: str, message: str, tmp_path: Path) -> None:
    assert before in OLD
    with pytest.raises(UserError, match=message):
        convert(OLD.replace(before, after), tmp_path)


def test_sections_of_the_current_format_that_look_old(tmp_path: Path) -> None:
    text = "[feature]\nA\n[weight-file]\nx\n[weight-add]\nA0= 1\n[weight-overwrite]\nA0= 1\n[weight-t]\n"
    assert not convert(text, tmp_path).notes


def test_surplus_table_limits_are_ignored(tmp_path: Path) -> None:
    """Surplus table limits are ignored: old inis have a second one for all elements."""
    ini = convert(OLD.replace("[ttable-limit]\n20", "[ttable-limit]\n10\n0"), tmp_path)
    assert ini.phrase_table().arguments["table-limit"] == "10"


@pytest.mark.parametrize("kind", ["0", "1"])
def test_other_language_models(kind: str, tmp_path: Path) -> None:
    ini = convert(OLD.replace("8 0 3", f"{kind} 0 3"), tmp_path)
    with pytest.raises(
        UserError, match=r"line 7: the embedded decoder does not support .*; if its file is in the ARPA format, name"
    ):
        declare_model(ini)
