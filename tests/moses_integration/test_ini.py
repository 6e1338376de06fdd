"""Reading, editing and writing moses.ini files without changing unrelated lines."""

from __future__ import annotations

import gzip
import os
import re
import subprocess
from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from moses_integration.ini import MosesIni, add_columns, add_feature, first_weight
from phrasescore.errors import UserError
from tests.conftest import MINI

INI = """\
# Comment with TranslationModel0= 9 9 in it
[input-factors]
0

[feature]
UnknownWordPenalty
PhraseDictionaryMemory name=TranslationModel0 num-features=4 path={table} input-factor=0 output-factor=0
KENLM name=LM0 factor=0 path=lm.arpa order=3   # name=LM1
[strange section]
anything at all
[weight]
  UnknownWordPenalty0= 1
TranslationModel0=  0.2\t0.2 0.2 0.2  # TranslationModel0= 0.7
LM0= 0.5
"""


def parse(text: str) -> MosesIni:
    return MosesIni(text.splitlines(keepends=True))


def changed(before: MosesIni, after: MosesIni) -> list[str]:
    """Return the lines of `after` that differ; both have the same number of lines."""
    return [new for old, new in zip(before.lines, after.lines, strict=True) if old != new]


def message(ini: MosesIni, label: str, table: Path, columns: int = 1) -> str:
    """Return the message if a column cannot be added; check that nothing changed."""
    before = ini.to_bytes()
    with pytest.raises(UserError) as caught:
        add_columns(ini, label, table, columns)
    assert ini.to_bytes() == before
    return str(caught.value)


@pytest.fixture(scope="module")
def scratch_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("ini") / "moses.ini"


# Reading and writing


@given(content=st.one_of(st.binary(), st.text(alphabet=" \t\r\n#[]=ab\x0b\x0c\x85\xa0\u2028").map(str.encode)))
def test_any_bytes_are_read_and_written_unchanged(scratch_file: Path, content: bytes) -> None:
    # Not at the beginning, where some bytes would mark a compressed file.
    content = b"#" + content
    scratch_file.write_bytes(content)
    ini = MosesIni.read(scratch_file)
    ini.write(scratch_file)
    assert scratch_file.read_bytes() == content
    assert all(line.index("\n") == len(line) - 1 for line in ini.lines[:-1])


@pytest.mark.parametrize("name", ["moses.ini", "moses.5.ini", "moses.tuned.ini"])
def test_the_files_of_a_real_moses_keep_their_bytes(name: str) -> None:
    ini = MosesIni.read(MINI / name)
    ini.set_weights(ini.copy().weights())
    assert ini.to_bytes() == (MINI / name).read_bytes()


def test_features_and_weights_of_a_real_file() -> None:
    ini = MosesIni.read(MINI / "moses.5.ini")
    labels = ["UnknownWordPenalty0", "WordPenalty0", "PhrasePenalty0", "TranslationModel0", "LexicalReordering0"]
    assert [feature.label for feature in ini.features()] == [*labels, "Distortion0", "LM0"]
    assert [feature.width for feature in ini.features()] == [1, 1, 1, 5, 6, 1, 1]
    assert ini.weights()["TranslationModel0"] == [0.2, 0.2, 0.2, 0.2, 0.15]
    assert ini.sections() == ["input-factors", "mapping", "distortion-limit", "feature", "weight"]
    assert ini.path_of(ini.phrase_table()) == MINI / "phrase-table.5.gz"


@pytest.mark.parametrize(
    ("arguments", "width"),
    [
        ("type=wbe-msd-bidirectional-fe", 6),
        ("type=wbe-mslr-backward-f", 4),
        ("type=wbe-msd-bidirectional-fe num-features=7", 7),
        ("type=hier-mslr-backward-f", 1),
        ("", 1),
    ],
)
def test_a_reordering_model_says_by_its_type_how_many_scores_it_has(arguments: str, width: int) -> None:
    ini = parse(f"[feature]\nLexicalReordering path=t {arguments}\n")
    assert ini.features()[0].width == width
    assert ini.weights_of_features() == {"LexicalReordering0": [1.0] * width}


def test_labels_are_the_class_and_a_number_that_only_nameless_features_share() -> None:
    """Labels are the class name and a number that counts only features without a name.

    See moses/FF/FeatureFunction.cpp.
    """
    ini = parse("[feature]\nKENLM name=LM0 path=a\nKENLM path=b\nDistortion\nKENLM path=c\nKENLM name= path=d\n")
    assert [feature.label for feature in ini.features()] == ["LM0", "KENLM0", "Distortion0", "KENLM1", "KENLM2"]


def test_weights_before_features_and_sections_in_chunks() -> None:
    ini = parse("[weight]\nA0= 1\n[feature]\nA\n[weight]\nB0= 1 2\n[feature]\nB num-features=2\n[weight]\nA0= 3\n")
    assert [feature.label for feature in ini.features()] == ["A0", "B0"]
    assert ini.weights() == {"A0": [3], "B0": [1, 2]}
    ini.set_weights({"A0": [4]})
    assert ini.lines[-1] == "A0= 4\n"
    assert ini.lines[1] == "A0= 1\n"


def test_only_spaces_and_tabs_separate_fields() -> None:
    """Only spaces and tabs separate fields; no-break spaces, form feeds and line separators do not."""
    ini = parse("[feature]\nA\tpath=/a\xa0b  x=1\n")
    assert ini.features()[0].arguments == {"path": "/a\xa0b", "x": "1"}
    ini = MosesIni(["# a\x0b[weight]\u2028A0= 1\n"])
    assert (ini.sections(), ini.weights()) == ([], {})


def test_a_carriage_return_and_a_missing_last_line_end(tmp_path: Path) -> None:
    path = tmp_path / "moses.ini"
    path.write_bytes(b"[feature]\r\nA name=A0 path=x\r\n[weight]\r\nA0= 1")
    ini = MosesIni.read(path)
    assert ini.features()[0].arguments["path"] == "x"
    ini.set_weights({"A0": [2.5]})
    ini.set_argument("A0", "path", "y")
    ini.set_weights({"B0": [1, 1]})
    assert ini.to_bytes() == b"[feature]\r\nA name=A0 path=y\r\n[weight]\r\nA0= 2.5\r\nB0= 1 1\r\n"


# Editing


def test_setting_weights_changes_their_line_alone() -> None:
    ini = parse(INI.format(table="t.gz"))
    before = ini.copy()
    ini.set_weights({"TranslationModel0": [1, -0.5, 1e-7, 1 / 3]})
    assert changed(before, ini) == ["TranslationModel0= 1 -0.5 1e-07 0.333333  # TranslationModel0= 0.7\n"]
    ini.set_weights({"TranslationModel0": [0.2] * 4, "LM0": [0.5]})
    assert changed(before, ini) == ["TranslationModel0= 0.2 0.2 0.2 0.2  # TranslationModel0= 0.7\n"]


def test_weights_without_a_line_get_one() -> None:
    ini = parse(INI.format(table="t.gz"))
    ini.set_weights({"Distortion0": [0.3]})
    assert ini.lines[-1] == "Distortion0= 0.3\n"
    assert parse("[weight]").lines == ["[weight]"]
    for text in ("[weight]", "[weight] # here\n", "", "[feature]\nA"):
        ini = parse(text)
        ini.set_weights({"A0": [1]})
        assert parse(ini.to_bytes().decode()).weights() == {"A0": [1]}
        assert ini.to_bytes().decode().startswith(text)


@pytest.mark.parametrize("weight", ["nan", "1e400", "x"])
def test_no_feature_is_added_to_an_ini_with_a_malformed_weight(weight: str, tmp_path: Path) -> None:
    table = "PhraseDictionaryMemory name=T num-features=2 path=t\n"
    ini = MosesIni(["[feature]\n", table, "[weight]\n", f"Distortion0= {weight}\n", "T= 1 1\n"])
    with pytest.raises(UserError, match="line 4: a weight of Distortion0 is not a number"):
        add_feature(ini, "CSLM", "CSLM0", {"path": tmp_path / "x"}, [1])


def test_no_feature_is_added_to_an_ini_with_a_wrong_number_of_table_weights(tmp_path: Path) -> None:
    table = "PhraseDictionaryMemory name=T num-features=3 path=t\n"
    ini = MosesIni(["[feature]\n", table, "[weight]\n", "T= 1 1\n"])
    with pytest.raises(UserError, match="line 2: T has 3 features but 2 weights; fix one of them first"):
        add_feature(ini, "CSLM", "CSLM0", {"path": tmp_path / "x"}, [1])


def test_adding_a_feature(tmp_path: Path) -> None:
    (tmp_path / "moses.ini").write_text(INI.format(table="t.gz"))
    ini = MosesIni.read(tmp_path / "moses.ini")
    before = ini.copy()
    arguments: dict[str, str | Path] = {"path": tmp_path / "cslm", "backoff": Path("/far/lm"), "order": "5"}
    add_feature(ini, "CSLM", "CSLM0", arguments, [0.25])
    added = [line for line in ini.lines if line not in before.lines]
    assert added == ["CSLM name=CSLM0 backoff=/far/lm order=5 path=cslm\n", "CSLM0= 0.25\n"]
    assert [line for line in ini.lines if line not in added] == before.lines
    moved = ini.with_absolute_paths()
    assert moved.path_of(moved.feature("CSLM0")) == tmp_path / "cslm"
    ini.set_argument("CSLM0", "cblm-file", "words")
    moved = ini.with_absolute_paths()
    assert moved.path_of(moved.feature("CSLM0"), "cblm-file") == tmp_path / "words"
    ini.remove_argument("CSLM0", "cblm-file")
    ini.set_argument("CSLM0", "other", "x")
    ini.remove_argument("CSLM0", "nothing")
    assert ini.feature("CSLM0").arguments.keys() == {"name", *arguments, "other"}
    ini.remove_argument("CSLM0", "other")
    assert [line for line in ini.lines if line not in added] == before.lines
    for label, message in (("CSLM0", "already has a feature CSLM0"), ("a_b", "cannot tune")):
        text = ini.to_bytes()
        with pytest.raises(UserError, match=message):
            add_feature(ini, "CSLM", label, {"path": tmp_path / "x"}, [1])
        assert ini.to_bytes() == text


def test_setting_the_value_of_a_section() -> None:
    text = "[search-algorithm]\n0 # all\n[stack]\n# none yet\n[weight]\nA= 1\n"
    ini = MosesIni(text.splitlines(keepends=True))
    for section in ("search-algorithm", "stack", "cube-pruning-pop-limit"):
        ini.set_values(section, ["1"])
    assert ini.to_bytes().decode() == (
        "[search-algorithm]\n1\n[stack]\n1\n# none yet\n[weight]\nA= 1\n\n[cube-pruning-pop-limit]\n1\n"
    )


def test_setting_an_argument_changes_that_argument_alone() -> None:
    ini = parse(INI.format(table="t.gz"))
    before = ini.copy()
    ini.set_argument("LM0", "path", r"C:\1\g<0>")
    assert changed(before, ini) == ["KENLM name=LM0 factor=0 path=C:\\1\\g<0> order=3   # name=LM1\n"]
    ini = before.copy()
    ini.set_argument("UnknownWordPenalty0", "tuneable", "false")
    ini.set_argument("TranslationModel0", "table-limit", "20")
    assert changed(before, ini) == [
        "UnknownWordPenalty tuneable=false\n",
        "PhraseDictionaryMemory name=TranslationModel0 num-features=4 table-limit=20 path=t.gz input-factor=0 "
        "output-factor=0\n",
    ]


@pytest.mark.parametrize("value", ["a b", "a#b", "a\tb", "a\n"])
def test_a_value_that_moses_would_truncate_is_an_error(value: str) -> None:
    ini = parse(INI.format(table="t.gz"))
    before = ini.to_bytes()
    with pytest.raises(UserError, match=r"line 8: path=.* cannot be written"):
        ini.set_argument("LM0", "path", value)
    assert ini.to_bytes() == before


LINES = st.lists(
    st.sampled_from(["# [weight] A0= 3", "", "[odd]", "  x y", "B0= 1", "[weight]", "[feature]", "B num-features=1"]),
    max_size=6,
).map(lambda lines: [f"{line}\n" for line in lines])


@given(before=LINES, between=LINES, after=LINES, weight=st.floats(-1e3, 1e3, allow_nan=False), ends=st.booleans())
def test_edits_change_the_meant_lines_in_any_surroundings(
    before: Sequence[str], between: Sequence[str], after: Sequence[str], weight: float, ends: bool
) -> None:
    feature, weights = "A num-features=2 path=p\n", "A0= 1 2" + "\n" * (ends or bool(after))
    lines = [*before, "[feature]\n", feature, *between, "[weight]\n", weights, *after]
    ini = MosesIni(lines)
    ini.set_weights({"A0": [weight, 1]})
    ini.replace(before_row := len(before) + 1, "path=p", "path=q")
    expected = list(lines)
    expected[before_row] = "A num-features=2 path=q\n"
    expected[len(lines) - len(after) - 1] = weights.replace("1 2", f"{weight:.6g} 1")
    assert ini.lines == expected


# Three numbers change together


def test_a_column_is_added(tmp_path: Path) -> None:
    (tmp_path / "moses.ini").write_text(INI.format(table="phrase-table.gz"))
    table = tmp_path / "phrase-table.rnn.gz"
    table.write_bytes((MINI / "phrase-table.5.gz").read_bytes())
    ini = MosesIni.read(tmp_path / "moses.ini")
    before = ini.copy()
    add_columns(ini, "TranslationModel0", table, 1, weight=0.1)
    assert changed(before, ini) == [
        "PhraseDictionaryMemory name=TranslationModel0 num-features=5 path=phrase-table.rnn.gz input-factor=0 "
        "output-factor=0\n",
        "TranslationModel0= 0.2 0.2 0.2 0.2 0.1  # TranslationModel0= 0.7\n",
    ]


@pytest.mark.parametrize("form", ["relative", "absolute"])
def test_a_path_stays_relative_or_absolute(tmp_path: Path, form: str) -> None:
    table = tmp_path / "new.gz"
    table.write_bytes((MINI / "phrase-table.5.gz").read_bytes())
    old = "old.gz" if form == "relative" else str(tmp_path / "old.gz")
    (tmp_path / "moses.ini").write_text(INI.format(table=old))
    ini = MosesIni.read(tmp_path / "moses.ini")
    add_columns(ini, "TranslationModel0", table, 1)
    expected = "new.gz" if form == "relative" else str(tmp_path / "new.gz")
    assert ini.phrase_table().arguments["path"] == expected
    assert ini.path_of(ini.phrase_table()) == table


def test_a_table_elsewhere_and_an_ini_written_elsewhere(tmp_path: Path) -> None:
    (tmp_path / "system").mkdir()
    (tmp_path / "system/lm.arpa").touch()
    (tmp_path / "system/moses.ini").write_text(INI.format(table="phrase-table.gz"))
    ini = MosesIni.read(tmp_path / "system/moses.ini")
    add_columns(ini, "TranslationModel0", MINI / "phrase-table.5.gz", 1)
    assert ini.phrase_table().arguments["path"] == str(MINI / "phrase-table.5.gz")
    ini.write(tmp_path / "moses.ini")
    moved = MosesIni.read(tmp_path / "moses.ini")
    assert moved.feature("LM0").arguments["path"] == str(tmp_path / "system/lm.arpa")
    ini.write(tmp_path / "system/other.ini")
    assert MosesIni.read(tmp_path / "system/other.ini").feature("LM0").arguments["path"] == "lm.arpa"


def test_a_link_to_a_table_keeps_its_name(tmp_path: Path) -> None:
    """A symbolic link to a table keeps its name.

    Moses detects compression by the suffix, which the link's target may lack.
    """
    (tmp_path / "store").write_bytes((MINI / "phrase-table.5.gz").read_bytes())
    (tmp_path / "table.gz").symlink_to(tmp_path / "store")
    (tmp_path / "moses.ini").write_text(INI.format(table="/elsewhere/table.gz"))
    ini = MosesIni.read(tmp_path / "moses.ini")
    add_columns(ini, "TranslationModel0", tmp_path / "table.gz", 1)
    assert ini.phrase_table().arguments["path"] == str(tmp_path / "table.gz")


def test_missing_weights_are_one_as_in_moses() -> None:
    ini = parse("[feature]\nPhraseDictionaryMemory num-features=4 path=t.gz\n")
    add_columns(ini, "PhraseDictionaryMemory0", MINI / "phrase-table.5.gz", 1, weight=0)
    assert ini.weights() == {"PhraseDictionaryMemory0": [1, 1, 1, 1, 0]}


def test_an_error_changes_nothing(tmp_path: Path) -> None:
    table, five = "TranslationModel0", MINI / "phrase-table.5.gz"
    ini = parse(INI.format(table="t.gz"))
    assert "has 4 scores per line, but moses.ini has num-features=4 and 1 to be added" in message(
        ini, table, MINI / "phrase-table.gz"
    )
    assert "has 5 scores per line, but moses.ini has num-features=4 and 2 to" in message(ini, table, five, 2)
    assert "cannot be read" in message(ini, table, tmp_path / "nowhere.gz")
    assert "has no feature `TM`; give one of UnknownWordPenalty0, TranslationModel0, LM0" in message(ini, "TM", five)
    assert "line 8: LM0 is a KENLM; give the label of a phrase table" in message(ini, "LM0", five)
    (tmp_path / "a b.gz").write_bytes(five.read_bytes())
    assert "a space ends a value" in message(ini, table, tmp_path / "a b.gz")
    (tmp_path / "empty.gz").write_bytes(gzip.compress(b""))
    assert "is empty" in message(ini, table, tmp_path / "empty.gz")
    (tmp_path / "bad").write_bytes(b"no table\n")
    assert "line 1: has 1 field" in message(ini, table, tmp_path / "bad")
    ini.set_weights({table: [0.2] * 3})
    assert "line 7: TranslationModel0 has 4 features but 3 weights" in message(ini, table, five)


@pytest.mark.parametrize(
    ("feature", "reason"),
    [
        (
            "PhraseDictionaryCompact name=T num-features=4 path=x.minphr",
            "T is a PhraseDictionaryCompact, which is a bin",
        ),
        ("ProbingPT name=T num-features=4 path=x", "T is a ProbingPT, which is a binary file"),
        ("PhraseDictionaryMemory name=T_1 num-features=4 path=x", "line 2: mert-moses.pl cannot tune a feature cal"),
    ],
)
def test_tables_that_get_no_column(feature: str, reason: str) -> None:
    ini = parse(f"[feature]\n{feature}\n")
    assert reason in message(ini, ini.phrase_table().label, MINI / "phrase-table.5.gz")


def test_one_of_several_tables_is_meant() -> None:
    tables = "".join(f"PhraseDictionaryMemory name=T{n} num-features=4 path=t{n}\n" for n in range(2))
    ini = parse(f"[feature]\n{tables}[weight]\nT0= 1 1 1 1\nT1= 2 2 2 2\n")
    with pytest.raises(
        UserError,
        match=r"one phrase table is expected in \[feature\], found T0 in line 2, T1 in line 3; choose one with feature",
    ):
        ini.phrase_table()
    before = ini.copy()
    add_columns(ini, "T1", MINI / "phrase-table.5.gz", 1)
    assert [line.split(" ")[0] for line in changed(before, ini)] == ["PhraseDictionaryMemory", "T1="]
    assert ini.weights() == {"T0": [1, 1, 1, 1], "T1": [2, 2, 2, 2, 0.2]}


@pytest.mark.parametrize(
    ("text", "row", "mention"),
    [
        ("PhraseDictionaryMultiModel mode=interpolate components=A,TM,B", 4, "components="),
        ("PhraseDictionaryGroup members=TM num-features=4", 4, "members="),
        ("[feature-add]\nPhraseDictionaryGroup members=B,TM", 5, "[feature-add]"),
        ("[feature-overwrite]\nTM table-limit=50 path=x", 5, "[feature-overwrite]"),
        ("[feature-name-overwrite]\nPhraseDictionaryMemory Other", 5, "[feature-name-overwrite]"),
        ("[weight-add]\nTM= 1 1 1 1", 5, "[weight-add]"),
        ("[weight-overwrite]\nB= 1 TM= 1 1 1 1", 5, "[weight-overwrite]"),
        ("[alternate-weight-setting]\nid=x\nTM= 1 1 1 1", 5, "[alternate-weight-setting]"),
    ],
)
def test_no_column_is_added_to_a_table_that_another_line_mentions(text: str, row: int, mention: str) -> None:
    ini = parse(f"[feature]\nPhraseDictionaryMemory name=TM num-features=4 path=t\nDistortion\n{text}\n")
    said = message(ini, "TM", MINI / "phrase-table.5.gz")
    assert said.startswith(f"moses.ini: line {row}: {mention} ")
    assert "may conflict with the new TM; move" in said or "combines TM with other tables" in said


@pytest.mark.parametrize("mapping", ["0 T 0\n1 T 1", "0 T 0\n0 G 0\n1  T 1", "T 0\n1 T 1"])
def test_a_table_of_one_of_several_decoding_paths_gets_no_column(mapping: str) -> None:
    ini = parse(f"[mapping]\n{mapping}\n[feature]\nPhraseDictionaryMemory name=TM num-features=4 path=t\n")
    said = message(ini, "TM", MINI / "phrase-table.5.gz")
    assert f"line {mapping.count(chr(10)) + 2}: [mapping] has several decoding paths, and the others than" in said


def test_lines_that_stay_right_with_a_column_stay() -> None:
    text = (
        "[mapping]\n0 T 0\n0 G 0\nG 1\n[decoding-graph-backoff]\n0\n"
        "[feature]\nPhraseDictionaryMemory name=TM num-features=4 path=t\nOther path=TM name=TMs\n"
        "[weight]\nTM_x= 0.5\nTM= 1 1 1 1\n"
    )
    ini = parse(text)
    before = ini.copy()
    add_columns(ini, "TM", MINI / "phrase-table.5.gz", 1)
    assert changed(before, ini) == [
        f"PhraseDictionaryMemory name=TM num-features=5 path={ini.phrase_table().arguments['path']}\n",
        "TM= 1 1 1 1 0.2\n",
    ]


@pytest.mark.parametrize(
    "text", ["[weight-overwrite]\nCSLM0= 1", "[feature-overwrite]\nCSLM0 path=x", "[weight-add]\nCSLM0= 1"]
)
def test_no_feature_is_added_that_another_line_mentions(text: str) -> None:
    ini = parse(f"[feature]\nDistortion\n{text}\n")
    before = ini.to_bytes()
    with pytest.raises(UserError, match="may conflict with the new CSLM0"):
        add_feature(ini, "CSLM", "CSLM0", {"path": Path("x")}, [1])
    assert ini.to_bytes() == before


def test_weights_that_another_section_overrides_are_not_tuned() -> None:
    parse("[weight]\nA= 1\n[weight-add]\nA= 2\n").require_effective_weights()
    with pytest.raises(UserError, match=r"line 4: \[weight-overwrite\] overrides \[weight\]; move its weights there"):
        parse("[weight]\nA= 1\n[weight-overwrite]\nA= 2\n").require_effective_weights()


# The folder that relative paths start from


@pytest.fixture
def tutorial(tmp_path: Path) -> Path:
    """A system whose paths start at its parent folder, as in the sample models of Moses' tutorial."""
    system = tmp_path / "models/phrase-model"
    system.mkdir(parents=True)
    for name in ("lm.arpa", "t.gz"):
        (tmp_path / f"models/{name}").touch()
    text = INI.format(table="models/t.gz").replace("path=lm.arpa", "path=models/lm.arpa")
    (system / "moses.ini").write_text(text)
    return tmp_path


def test_paths_that_start_at_the_working_directory(tutorial: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tutorial / "models/phrase-model/moses.ini"
    monkeypatch.chdir(tutorial)
    ini = MosesIni.read(path)
    assert ini.path_of(ini.phrase_table()) == tutorial / "models/t.gz"
    assert [note.split(", as in")[0] for note in ini.notes] == [
        f"{path}: relative paths start at the working directory, {tutorial}"
    ]
    ini.require_files()
    # In another folder, relative paths would name other files.
    ini.write(path.with_name("new.ini"))
    moved = MosesIni.read(path.with_name("new.ini"))
    assert [moved.feature(label).arguments["path"] for label in ("TranslationModel0", "LM0")] == [
        str(tutorial / "models" / name) for name in ("t.gz", "lm.arpa")
    ]
    assert not moved.notes
    ini.write(tutorial / "new.ini")
    assert (tutorial / "new.ini").read_bytes() == path.read_bytes()
    # The new table's path starts at the same folder.
    table = tutorial / "t5.gz"
    table.write_bytes((MINI / "phrase-table.5.gz").read_bytes())
    add_columns(ini, "TranslationModel0", table, 1)
    assert ini.phrase_table().arguments["path"] == "t5.gz"


def test_features_without_weights() -> None:
    ini = MosesIni.read(MINI / "moses.ini")
    assert ini.without_weights() == []
    ini.lines = [line for line in ini.lines if not line.startswith(("LM0=", "Distortion0=", "UnknownWordPenalty0="))]
    assert ini.without_weights() == ["Distortion0", "LM0"]
    ini.lines += ["[weight-overwrite]\n", "LM0= 2\n"]
    assert ini.without_weights() == ["Distortion0"]


@pytest.mark.parametrize("content", ["", "[weight]\nLM0= 1\n", "[feature]\r[weight]\r"])
def test_an_ini_without_features(tmp_path: Path, content: str) -> None:
    (tmp_path / "moses.ini").write_text(content)
    with pytest.raises(UserError, match=r"has no feature in \[feature\]; give a moses.ini, as UTF-8"):
        MosesIni.read(tmp_path / "moses.ini").require_some_weight()


def test_the_folder_of_the_ini_comes_first(tutorial: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The ini's own folder comes first: if one file exists there, the others are missing."""
    path = tutorial / "models/phrase-model/moses.ini"
    (path.parent / "models").mkdir()
    (path.parent / "models/lm.arpa").touch()
    monkeypatch.chdir(tutorial)
    ini = MosesIni.read(path)
    assert ini.path_of(ini.feature("LM0")) == path.parent / "models/lm.arpa"
    assert not ini.notes
    with pytest.raises(UserError, match=rf"line 7: path=models/t\.gz does not exist, relative to {path.parent}; move"):
        ini.require_files()


def test_no_ini_is_written_that_names_missing_files(tutorial: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tutorial / "models/phrase-model")
    ini = MosesIni.read(Path("moses.ini"))
    for edit in (ini.require_files, lambda: ini.require_valid_at(Path("o")), lambda: ini.write(tutorial / "o")):
        with pytest.raises(UserError, match="does not exist, relative to"):
            edit()
    assert not (tutorial / "o").exists()
    ini.set_argument("TranslationModel0", "path", "/nowhere/t")
    with pytest.raises(UserError, match="line 7: path=/nowhere/t does not exist; fix the path"):
        ini.require_files()


def test_without_a_working_directory(tutorial: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tutorial / "gone").mkdir()
    monkeypatch.chdir(tutorial / "gone")
    (tutorial / "gone").rmdir()
    assert MosesIni.read(tutorial / "models/phrase-model/moses.ini").folder == tutorial / "models/phrase-model"


@pytest.mark.parametrize("ending", ["", ".gz", ".minphr", ".minlexr", ".binphr.idx", ".binlexr.idx"])
def test_suffixes_that_moses_appends(ending: str, tmp_path: Path) -> None:
    (tmp_path / "moses.ini").write_text("[feature]\nA path=x\nB backoff=sub\n")
    (tmp_path / "sub").mkdir()
    ini = MosesIni.read(tmp_path / "moses.ini")
    with pytest.raises(UserError, match="line 2: path=x does not exist"):
        ini.require_files()
    (tmp_path / f"x{ending}").touch()
    ini.require_files()


def test_folders_whose_names_are_not_utf8(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = Path(os.fsdecode(os.fsencode(tmp_path) + b"/\xff\xe9"))
    folder.mkdir()
    (folder / "moses.ini").write_text(INI.format(table="t.gz"))
    (folder / "lm.arpa").touch()
    (folder / "t5.gz").write_bytes((MINI / "phrase-table.5.gz").read_bytes())
    ini = MosesIni.read(folder / "moses.ini")
    add_columns(ini, "TranslationModel0", folder / "t5.gz", 1)
    ini.write(tmp_path / "moses.ini")
    assert b"/\xff\xe9/t5.gz " in (tmp_path / "moses.ini").read_bytes()
    moved = MosesIni.read(tmp_path / "moses.ini")
    assert moved.path_of(moved.phrase_table()).samefile(folder / "t5.gz")
    moved.require_files()


# Errors


def test_files_that_are_too_large(tmp_path: Path) -> None:
    path = tmp_path / "moses.ini"
    for content, reason in (
        (b"x\n" * (1 << 20), "moses.ini: has more than 1,048,576 bytes; give the"),
        (gzip.compress(b"\n" * (1 << 24)), "moses.ini: has more than"),
    ):
        path.write_bytes(content)
        with pytest.raises(UserError, match=re.escape(reason)):
            MosesIni.read(path)
    path.unlink()
    os.mkfifo(path)
    with pytest.raises(UserError, match=r"moses\.ini: is a folder, a pipe or a device; give the moses\.ini itself"):
        MosesIni.read(path)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("[feature]\nA num-features=1001\n", "line 2: num-features is not a whole number below 1000; fix the line"),
        (f"[feature]\nA num-features={'9' * 5000}\n", "line 2: num-features is not a whole number"),
        (f"[feature]\nA {'x' * 9000}\n", "line 2: `xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx...` is not key=value"),
        (f"[weight]\n{'x' * 9000}\n", "line 2: `xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx...` is not `Label= number ...`"),
        ("[feature]\nA path\n", "line 2: `path` is not key=value"),
        ("[feature]\nA x=1 x=2\n", "line 2: `x=2` is not key=value"),
        ("[feature]\nA num-features=four\n", "line 2: num-features is not a whole number"),
        ("[feature]\nA num-features=-1\n", "line 2: num-features is not a whole number"),
        ("[feature]\nA name=X\nB name=X\n", "line 3: a second feature has the label X"),
        ("[weight]\nA0=1\n", "line 2: `A0=1` is not `Label= number ...`"),
        ("[weight]\nA0=\n", "is not `Label= number ...`"),
        ("[weight]\n\nA0= 1 x\n", "line 3: a weight of A0 is not a number"),
        ("[weight]\nA0= nan\n", "line 2: a weight of A0 is not a number"),
        ("[weight]\nA0= 1_0\n", "line 2: a weight of A0 is not a number"),
    ],
)
def test_malformed_lines_are_named(text: str, reason: str) -> None:
    ini = parse(text)
    with pytest.raises(UserError) as caught:
        (ini.features(), ini.weights())
    assert reason in str(caught.value)


def test_a_feature_without_a_path_and_a_missing_file(tmp_path: Path) -> None:
    ini = parse("[feature]\nA\n")
    with pytest.raises(UserError, match="line 2: A0 has no path="):
        ini.path_of(ini.feature("A0"))
    with pytest.raises(UserError, match="found none; add its line"):
        ini.phrase_table()
    with pytest.raises(UserError, match=r"nowhere\.ini: cannot be read"):
        MosesIni.read(tmp_path / "nowhere.ini")


# A real Moses reads the same values


@pytest.mark.moses
def test_moses_reads_the_same_weights(moses_home: Path, tmp_path: Path) -> None:
    text = (MINI / "moses.ini").read_text()
    unusual = text.replace("[feature]", "[weight]\nLM0= 0.1 # later\n[feature]").replace("\n", " \t\r\n")
    added = MosesIni.read(MINI / "moses.ini")
    add_columns(added, "TranslationModel0", MINI / "phrase-table.5.gz", 1)
    added.set_weights({"Distortion0": [-0.25]})
    unnamed = (
        text.replace("name=LM0 ", "")
        .replace("LM0=", "KENLM0=")
        .replace("\nDistortion\n", "\nDistortion\nKENLM name=LM7 factor=0 path=lm.fr.arpa order=3\n")
    )
    for content in (text.encode(), unusual.encode(), added.to_bytes(), unnamed.encode() + b"LM7= 0.2"):
        path = tmp_path / "moses.ini"
        path.write_bytes(content)
        ini = MosesIni.read(path)
        weights = ini.weights()
        command = [str(moses_home / "bin/moses"), "-f", str(path), "-show-weights"]
        done = subprocess.run(command, capture_output=True, check=True, cwd=MINI, env={**os.environ, "LC_ALL": "C"})
        shown = [line.split(" ") for line in done.stdout.decode().splitlines() if "= " in line or "UNTUNEABLE" in line]
        assert {label.removesuffix("=") for label, *_ in shown} == {feature.label for feature in ini.features()}
        for label, *numbers in shown:
            if label.endswith("="):
                assert [float(number) for number in numbers if number] == pytest.approx(weights[label[:-1]], abs=1e-6)


def test_a_link_to_itself_is_no_moses_ini(tmp_path: Path) -> None:
    (tmp_path / "moses.ini").symlink_to("moses.ini")
    with pytest.raises(
        UserError, match=r"moses\.ini: is a link that leads to itself; remove it or choose another name"
    ):
        MosesIni([], folder=tmp_path).write(tmp_path / "moses.ini")


@pytest.mark.parametrize(
    ("others", "expected"),
    [([0.2] * 4, 0.2), ([1.0], 0.2), ([0.01, -0.03], 0.02), ([0.0, 0.0], 0.2), ([], 0.2)],
)
def test_the_initial_weight_does_not_dominate_tuned_weights(others: list[float], expected: float) -> None:
    assert first_weight(others) == pytest.approx(expected)
