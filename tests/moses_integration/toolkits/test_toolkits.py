"""The choice of toolkit, and the exchange of files between toolkits."""

from __future__ import annotations

import gzip
import os
import shutil
from collections.abc import Sequence
from pathlib import Path

import pytest

from moses_integration.ini import MosesIni, add_feature
from moses_integration.toolkits.embedded import EmbeddedToolkit
from moses_integration.toolkits.installation import Installation, StepFailure
from moses_integration.toolkits.moses import MosesToolkit
from moses_integration.toolkits.toolkit import NbestRequest, TuningRequest, choose_toolkit
from moses_integration.tuning.tunings import TuningConfig
from phrasescore.errors import UserError
from phrasescore.files import open_input, open_output, read_lines
from tests.conftest import MINI
from tests.moses_integration.fake_moses import fake_moses, program


def request(source: Path, references: Sequence[Path], folder: Path) -> TuningRequest:
    """Return the request of a small tuning."""
    return TuningRequest(source, references, [1], TuningConfig(nbest=20, iterations=2, restarts=1), folder)


# The choice of toolkit


def test_auto_without_moses_is_embedded(no_moses: None) -> None:
    toolkit = choose_toolkit("auto")
    assert (toolkit.name, str(toolkit)) == ("embedded", "embedded")


def test_auto_with_moses_is_moses(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, no_moses: None) -> None:
    home = fake_moses(tmp_path / "moses")
    monkeypatch.setenv("PATH", str(home / "bin"))
    for toolkit in (choose_toolkit("auto"), choose_toolkit("moses")):
        assert (toolkit.name, str(toolkit)) == ("moses", f"Moses in {home}")
    assert choose_toolkit("embedded").name == "embedded"


def test_moses_that_is_not_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, no_moses: None) -> None:
    with pytest.raises(UserError, match="toolkit='moses': Moses was not found; set MOSES_HOME"):
        choose_toolkit("moses")
    monkeypatch.setenv("MOSES_HOME", str(tmp_path / "typo"))
    with pytest.raises(UserError, match="typo/bin/moses: is missing"):
        choose_toolkit("auto")
    assert choose_toolkit("embedded").name == "embedded"


# Other weights


def test_tables_are_read_once_for_all_weights(tmp_path: Path) -> None:
    """Tables are read once for all weights.

    The files may be gone by the second translation, which equals that of a new translator.
    """
    for name in ("moses.ini", "phrase-table.gz", "reordering-table.wbe-msd-bidirectional-fe.gz", "lm.fr.arpa"):
        (tmp_path / name).write_bytes((MINI / name).read_bytes())
    source = tmp_path / "in"
    source.write_bytes(b"".join((MINI / "dev.en").read_bytes().splitlines(keepends=True)[:9]))
    ini, toolkit = MosesIni.read(tmp_path / "moses.ini"), EmbeddedToolkit(1)
    other = ini.weights() | {"LM0": [0.01], "WordPenalty0": [-3.0]}
    with toolkit.translator(ini, source, tmp_path) as translate:
        translate(ini.weights(), tmp_path / "first")
        (tmp_path / "phrase-table.gz").rename(tmp_path / "gone")
        translate(other, tmp_path / "second")
        translate(ini.weights(), tmp_path / "third")
    (tmp_path / "gone").rename(tmp_path / "phrase-table.gz")
    with toolkit.translator(ini, source, tmp_path) as translate:
        translate(other, tmp_path / "alone")
    first, second, third, alone = ((tmp_path / name).read_bytes() for name in ("first", "second", "third", "alone"))
    assert first == third != second == alone


def test_moses_filters_once_for_all_weights(pretended: MosesToolkit, tmp_path: Path) -> None:
    program(tmp_path / "moses/bin/moses", f'cat "$2" >> {tmp_path}/inis; cat')
    (tmp_path / "in").write_text("a\n")
    ini = MosesIni.read(MINI / "moses.ini")
    with pretended.translator(ini, tmp_path / "in", tmp_path / "work") as translate:
        assert not (tmp_path / "work").exists()
        for weight in (0.25, 0.75):
            translate({"LM0": [weight]}, tmp_path / "out")
    assert [line for line in (tmp_path / "inis").read_text().splitlines() if line.startswith("LM0=")] == [
        "LM0= 0.25",
        "LM0= 0.75",
    ]


# The Moses toolkit with stand-in programs


@pytest.fixture
def pretended(tmp_path: Path) -> MosesToolkit:
    """A stand-in for Moses whose decoder numbers the lines."""
    home = fake_moses(tmp_path / "moses")
    program(home / "bin/moses", "cat -n")
    return MosesToolkit(Installation(home), 1)


def decode(
    toolkit: MosesToolkit, ini: MosesIni, source: Path, folder: Path, nbest: NbestRequest | None = None
) -> bytes:
    with toolkit.translator(ini, source, folder) as translate:
        translate(ini.weights(), folder / "out", nbest)
    return (folder / "out").read_bytes()


def test_as_many_translations_as_sentences(pretended: MosesToolkit, tmp_path: Path) -> None:
    (tmp_path / "in").write_text("a\nb\n")
    assert decode(pretended, MosesIni.read(MINI / "moses.ini"), tmp_path / "in", tmp_path) == b"     1\ta\n     2\tb\n"
    program(tmp_path / "moses/bin/moses", "head -n 1")
    with pytest.raises(StepFailure, match=r"decoding: moses translated 1 of 2 sentences; see .*moses\.log"):
        decode(pretended, MosesIni.read(MINI / "moses.ini"), tmp_path / "in", tmp_path)
    (tmp_path / "in").write_text("")
    assert decode(pretended, MosesIni.read(MINI / "moses.ini"), tmp_path / "in", tmp_path) == b""


def test_the_filter_gets_the_factors(pretended: MosesToolkit, tmp_path: Path) -> None:
    """The filter gets the factors, because otherwise it would drop all phrases."""
    text = (MINI / "moses.ini").read_text().replace("path=", f"path={MINI}/")
    (tmp_path / "moses.ini").write_text(text.replace(" input-factor=0 output-factor=0", ""))
    (tmp_path / "in").write_text("a\n")
    decode(pretended, MosesIni.read(tmp_path / "moses.ini"), tmp_path / "in", tmp_path / "w")
    for line in MosesIni.read(tmp_path / "w/filtered/moses.ini").features():
        if line.kind in ("PhraseDictionaryMemory", "LexicalReordering"):
            assert (line.arguments["input-factor"], line.arguments["output-factor"]) == ("0", "0")
            assert Path(line.arguments["path"]).is_absolute()


def test_folders_that_the_scripts_cannot_use(pretended: MosesToolkit, tmp_path: Path) -> None:
    ini = MosesIni.read(MINI / "moses.ini")
    with pytest.raises(UserError, match="my work: Moses' scripts cannot use a folder with ` ` in its path; give anoth"):
        decode(pretended, ini, MINI / "dev.en", tmp_path / "my work")
    with pytest.raises(UserError, match=r"mose\$: Moses' scripts cannot use a folder with `\$`"):
        MosesToolkit(Installation(tmp_path / "mose$"))


def test_a_neural_language_model_is_not_for_moses(pretended: MosesToolkit, tmp_path: Path) -> None:
    ini = MosesIni.read(MINI / "moses.ini")
    add_feature(ini, "CSLM", "CSLM0", {"path": tmp_path}, [0.2])
    with pytest.raises(UserError, match=r"line 24: CSLM0 is a CSLM, which Moses does not have; use toolkit='embedded'"):
        decode(pretended, ini, MINI / "dev.en", tmp_path / "work")
    with pytest.raises(UserError, match="CSLM0 is a CSLM"):
        list(pretended.tune(ini, request(MINI / "dev.en", [MINI / "dev.fr"], tmp_path / "work")))


def test_labels_that_the_script_cannot_tune(pretended: MosesToolkit, tmp_path: Path) -> None:
    (tmp_path / "moses.ini").write_text((MINI / "moses.ini").read_text().replace("LM0", "LM_0"))
    ini = MosesIni.read(tmp_path / "moses.ini")
    with pytest.raises(UserError, match=r"line 24: mert-moses\.pl cannot tune a feature called `LM_0`"):
        list(pretended.tune(ini, request(MINI / "dev.en", [MINI / "dev.fr"], tmp_path / "work")))


def test_references_of_an_earlier_run_are_not_tuned_on(pretended: MosesToolkit, tmp_path: Path) -> None:
    """References of an earlier run are deleted, because `mert-moses.pl` would use all that it finds."""
    ini, work = MosesIni.read(MINI / "moses.ini"), tmp_path / "work"
    for count in (2, 1):
        with pytest.raises(UserError, match=r"mert-moses\.pl: does not exist"):
            list(pretended.tune(ini, request(MINI / "dev.en", [MINI / "dev.fr"] * count, work)))
        assert len(list(work.glob("dev.references*"))) == count


def test_tables_are_filtered_as_moses_reads_them(pretended: MosesToolkit, tmp_path: Path) -> None:
    """Filtering follows Moses' rules for reading tables.

    It keeps long phrases and tab-separated words and fields, which Moses' own filter drops, and removes comments.
    """
    long = b" ".join([b"a"] * 12)
    lines = [
        b"%b ||| x ||| 0.5\n" % long,
        b"b  c ||| y ||| 0.5\n",
        b"d|||z|||0.5\n",
        b"e\t||| w ||| 0.5",
        b"\nf ||| v ||| 1",
    ]
    (tmp_path / "table").write_bytes(b"".join(lines))
    text = (MINI / "moses.ini").read_text()
    off = "# LexicalReordering name=Old num-features=6 path=gone.gz\nDistortion # or not\n"
    text = text.replace("\nDistortion\n", f"\n{off}").replace("path=", f"path={MINI}/")
    (tmp_path / "moses.ini").write_text(text.replace(f"path={MINI}/phrase-table.gz", f"path={tmp_path}/table"))
    (tmp_path / "in").write_bytes(long + b"\nb\tc d\ne\n")
    ini = MosesIni.read(tmp_path / "moses.ini")
    decode(pretended, ini, tmp_path / "in", tmp_path / "w")
    assert list(read_lines(tmp_path / "w/filtered/table3.gz")) == [line.strip(b"\n") for line in lines[:4]]
    assert (tmp_path / "w/filtered/table4.gz").exists()
    handed_on = MosesIni.read(tmp_path / "w/filtered/moses.ini")
    assert "#" not in handed_on.to_bytes().decode()
    assert [one.label for one in handed_on.features()] == [one.label for one in ini.features()]
    ini.append("max-phrase-length", "11")
    decode(pretended, ini, tmp_path / "in", tmp_path / "short")
    assert list(read_lines(tmp_path / "short/filtered/table3.gz")) == [line.strip(b"\n") for line in lines[1:4]]


@pytest.mark.parametrize(
    ("old", "new", "kept"),
    [
        ("input-factor=0", "input-factor=1", {3}),
        ("type=wbe-msd-bidirectional-fe", "type=wbe-msd-bidirectional-e", {4}),
        ("num-features=4", "num-features=4 filterable=false", {3}),
        ("[weight]", "[inputtype]\n2\n[weight]", {3, 4}),
        ("[weight]", "[xml-input]\nexclusive\n[weight]", {3, 4}),
        ("[weight]", "[search-algorithm]\n3\n[weight]", {3, 4}),
        ("[weight]", "[search-algorithm]\n1\n[xml-input]\npass-through\n[weight]", set()),
    ],
)
def test_tables_that_are_not_for_the_words_of_the_input_stay_whole(
    pretended: MosesToolkit, tmp_path: Path, old: str, new: str, kept: set[int]
) -> None:
    text = (MINI / "moses.ini").read_text().replace(old, new, 1).replace("path=", f"path={MINI}/")
    (tmp_path / "moses.ini").write_text(text)
    decode(pretended, MosesIni.read(tmp_path / "moses.ini"), MINI / "dev.en", tmp_path / "w")
    features = MosesIni.read(tmp_path / "w/filtered/moses.ini").features()
    assert {place for place in (3, 4) if features[place].arguments["path"].startswith(f"{MINI}/")} == kept


def test_tables_that_moses_finds_by_a_shorter_name(pretended: MosesToolkit, tmp_path: Path) -> None:
    """Moses finds `table.gz` and a binary reordering table by the name `table`."""
    shutil.copy(MINI / "phrase-table.gz", tmp_path)
    (tmp_path / "reordering.minlexr").touch()
    text = (MINI / "moses.ini").read_text().replace("path=lm", f"path={MINI}/lm").replace("-table.gz", "-table")
    text = text.replace("reordering-table.wbe-msd-bidirectional-fe.gz", "reordering")
    (tmp_path / "moses.ini").write_text(text)
    decode(pretended, MosesIni.read(tmp_path / "moses.ini"), MINI / "hard.en", tmp_path / "work")
    paths = [one.arguments.get("path") for one in MosesIni.read(tmp_path / "work/filtered/moses.ini").features()]
    assert paths[3:5] == [f"{tmp_path}/work/filtered/table3.gz", f"{tmp_path}/reordering"]


@pytest.mark.parametrize(
    ("old", "new", "fault"),
    [
        ("path=phrase", "path=gone/phrase", "line 21: .*/gone/phrase-table.gz: is not a file; fix the path="),
        (
            "[weight]",
            "PhraseDictionaryTransliteration script-dir=;touch${IFS}owned;\n[weight]",
            "line 27: PhraseDictionaryTransliteration0 makes Moses run commands of its line; remove it",
        ),
        (
            "[weight]",
            "[feature-overwrite]\nLM0 name=';touch${IFS}owned;'\n[weight]",
            r"line 28: \[feature-overwrite\] changes features of \[feature\]; edit \[feature\]",
        ),
    ],
    ids=["path", "class", "section"],
)
def test_lines_that_would_become_commands(
    pretended: MosesToolkit, tmp_path: Path, old: str, new: str, fault: str
) -> None:
    shutil.copytree(MINI, tmp_path / "system")
    path = tmp_path / "system/moses.ini"
    path.write_text(path.read_text().replace(old, new, 1))
    ini = MosesIni.read(path)
    with pytest.raises(UserError, match=fault):
        decode(pretended, ini, MINI / "dev.en", tmp_path / "work")
    with pytest.raises(UserError, match=fault):
        list(pretended.tune(ini, request(MINI / "dev.en", [MINI / "dev.fr"], tmp_path / "work")))


@pytest.mark.parametrize("name", ["table.zst", "table.xz", "table"])
def test_tables_become_readable_for_moses(pretended: MosesToolkit, tmp_path: Path, name: str) -> None:
    with open_input(MINI / "phrase-table.gz") as table, open_output(tmp_path / name) as stream:
        shutil.copyfileobj(table.stream, stream)
    ini = MosesIni.read(MINI / "moses.ini")
    ini.set_argument("TranslationModel0", "path", str(tmp_path / name))
    decode(pretended, ini, MINI / "dev.en", tmp_path / "work")
    (filtered,) = (tmp_path / "work/filtered").glob("table3.gz")
    lines = gzip.decompress(filtered.read_bytes()).splitlines()
    assert lines
    assert {*lines} < {*gzip.decompress((MINI / "phrase-table.gz").read_bytes()).splitlines()}


# A real Moses


@pytest.fixture
def toolkit(moses_home: Path) -> MosesToolkit:
    return MosesToolkit(Installation(moses_home), 2)


@pytest.mark.moses
def test_a_failing_script_says_why(moses_home: Path, tmp_path: Path, small_dev: tuple[Path, Path]) -> None:
    """The message of a failing script has its reason: the table has four scores where the ini has five."""
    text = (MINI / "moses.5.ini").read_text().replace("phrase-table.5.gz", str(MINI / "phrase-table.gz"))
    text = text.replace("path=reord", f"path={MINI}/reord").replace("path=lm", f"path={MINI}/lm")
    (tmp_path / "moses.ini").write_text(text)
    ini = MosesIni.read(tmp_path / "moses.ini")
    toolkit = MosesToolkit(Installation(moses_home), 1)
    with pytest.raises(StepFailure) as caught:
        decode(toolkit, ini, small_dev[0], tmp_path / "work")
    assert "decoding: `" in str(caught.value)
    assert "` ended with exit code 1; its last messages are: " in str(caught.value)
    assert "Size of scoreVector != number (4!=5) of score components on line" in str(caught.value)
    assert f"see {tmp_path}/work/moses.log" in str(caught.value)
    assert not (tmp_path / "work/out").exists()
    with pytest.raises(StepFailure) as caught:
        list(toolkit.tune(ini, request(small_dev[0], [small_dev[1]], tmp_path / "tuning")))
    assert "tuning with seed 1: `" in str(caught.value)
    assert "mert-moses.log" in str(caught.value)
    assert os.path.getsize(tmp_path / "tuning/mert.seed1/mert-moses.log") > 0  # noqa: PTH202
