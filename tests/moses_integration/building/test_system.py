"""A system folder is complete, in Moses' formats, and identical for both toolkits."""

from __future__ import annotations

import gzip
import hashlib
import json
import re
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from moses_integration.building import alignment as word_aligner
from moses_integration.building.aligned_corpus import Corpus
from moses_integration.building.preparation import SystemText, TextSettings
from moses_integration.building.system import BuildConfig, BuildInput, TableBuilder, build_system
from moses_integration.ini import MosesIni, add_columns
from moses_integration.toolkits.embedded import EmbeddedToolkit
from moses_integration.toolkits.installation import Installation
from moses_integration.toolkits.moses import MosesToolkit
from moses_integration.toolkits.toolkit import NbestRequest, TuningRequest
from moses_integration.tuning.tunings import TuningConfig
from phrasescore.errors import UserError
from phrasescore.text import Log, ProgressCallback, no_log
from tests.conftest import MINI
from tests.killed import die

TOKENISED = TextSettings("en", "fr", tokenise=False, casing="keep", escape=False)
TRIGRAMS = BuildConfig(order=3)
IBM1 = BuildConfig(aligner="ibm1", order=3)
EMBEDDED = EmbeddedToolkit(1)
TABLES = ("phrase-table.gz", "reordering-table.wbe-msd-bidirectional-fe.gz", "lex.e2f", "lex.f2e")


def build(
    folder: Path,
    source: Path = MINI / "train.en",
    target: Path = MINI / "train.fr",
    alignment: Path | None = MINI / "train.align",
    validation: tuple[Path, Path] | None = None,
    *,
    text: TextSettings = TOKENISED,
    config: BuildConfig = TRIGRAMS,
    tables: TableBuilder = EMBEDDED.build_tables,
    log: Log = no_log,
) -> MosesIni:
    """Build a system, from the mini corpus by default."""
    inputs = BuildInput(source, target, alignment, validation)
    return build_system(inputs, folder, text, config, tables, processes=1, log=log)


def content(path: Path) -> bytes:
    """Return the decompressed content; lexical tables are sorted, because Moses writes them in no fixed order."""
    data = path.read_bytes()
    if path.suffix == ".gz":
        return gzip.decompress(data)
    return b"".join(sorted(data.splitlines(keepends=True)))


@pytest.fixture(scope="module")
def system(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("embedded") / "system"
    build(folder)
    return folder


def test_the_folder_is_complete(system: Path) -> None:
    assert {str(path.relative_to(system)) for path in system.rglob("*")} == {
        *TABLES,
        "moses.ini",
        "lm.fr.arpa",
        "preparation.json",
        "build.json",
        "corpus",
        "corpus/train.en",
        "corpus/train.fr",
        "corpus/train.align",
    }


@pytest.mark.parametrize("name", TABLES)
def test_the_tables_are_those_of_a_real_moses(system: Path, name: str) -> None:
    assert content(system / name) == content(MINI / name)


def test_the_ini_says_what_that_of_a_real_moses_says(system: Path) -> None:
    ours, theirs = MosesIni.read(system / "moses.ini"), MosesIni.read(MINI / "moses.ini")
    assert ours.weights() == theirs.weights()
    assert [(f.kind, f.label, f.arguments) for f in ours.features()] == [
        (f.kind, f.label, f.arguments) for f in theirs.features()
    ]
    for section in ("input-factors", "mapping", "distortion-limit"):
        assert ours.values(section) == theirs.values(section)


def test_the_report_says_how(system: Path) -> None:
    report = json.loads((system / "build.json").read_text())
    assert report["settings"]["order"] == 3
    assert report["tables"]["phrase_pairs"] == 19_385
    assert set(report["seconds"]) == {"text", "alignment", "tables", "language model"}


def test_the_report_says_of_what(system: Path) -> None:
    report = json.loads((system / "build.json").read_text())
    names = {"source": "train.en", "target": "train.fr", "alignment": "train.align"}
    assert report["inputs"] == {
        key: {"path": str(MINI / name), "sha256": hashlib.sha256((MINI / name).read_bytes()).hexdigest()}
        for key, name in names.items()
    }
    assert set(report["settings"]) == {"text", "longest_sentence", "aligner", "order", "longest_phrase"}
    assert {"phrasescore", "python", "numpy", "torch"} <= report["versions"].keys()


def test_the_report_is_that_of_the_same_build(system: Path, tmp_path: Path) -> None:
    build(tmp_path / "again")
    one, two = (json.loads((folder / "build.json").read_text()) for folder in (system, tmp_path / "again"))
    assert one | {"seconds": 0} == two | {"seconds": 0}


def test_each_step_is_reported_and_the_estimator_is_named(tmp_path: Path, no_moses: None) -> None:
    for name, lines in (("a.en", "a b\nb a\n"), ("a.fr", "x y\ny x\n"), ("a.align", "0-0 1-1\n0-0 1-1\n")):
        (tmp_path / name).write_text(lines)
    told: list[str] = []
    build(tmp_path / "system", tmp_path / "a.en", tmp_path / "a.fr", tmp_path / "a.align", log=told.append)
    assert [line.partition(":")[0] for line in told] == ["text", "alignment", "tables", *2 * ["language model"]]
    assert told[3] == "language model: estimator embedded"


def test_text_that_is_not_utf8_is_reported(tmp_path: Path) -> None:
    (tmp_path / "a.en").write_text("a b\nb a\n")
    (tmp_path / "a.fr").write_bytes(b"x y\n\xe9 x\n")
    (tmp_path / "a.align").write_text("0-0 1-1\n0-0 1-1\n")
    told: list[str] = []
    build(tmp_path / "system", tmp_path / "a.en", tmp_path / "a.fr", tmp_path / "a.align", log=told.append)
    assert [line for line in told if "UTF-8" in line] == [
        f"{tmp_path}/a.fr: lines that are not UTF-8: 1, the first is line 2; their words will match no word of the "
        "model; convert the text with `iconv`"
    ]


def test_a_given_alignment_keeps_every_line(tmp_path: Path) -> None:
    for name, lines in (("a.en", "a b\n\nc\n"), ("a.fr", "x y\nz\nw\n"), ("a.align", "0-0 1-1\n\n0-0\n")):
        (tmp_path / name).write_text(lines)
    texts = tmp_path / "a.en", tmp_path / "a.fr"
    build(tmp_path / "system", *texts, tmp_path / "a.align")
    assert (tmp_path / "system/corpus/train.en").read_text() == "a b\n\nc\n"
    build(tmp_path / "other", *texts, None, config=IBM1)
    assert (tmp_path / "other/corpus/train.en").read_text() == "a b\nc\n"
    report = json.loads((tmp_path / "other/build.json").read_text())
    assert (report["text"]["kept"], report["text"]["dropped"]) == (2, {"empty": 1})
    assert not list((tmp_path / "other/corpus").glob("*.whole"))


@pytest.mark.parametrize("alignment", [None, MINI / "train.align"])
def test_phrase_pairs_of_other_sentences(tmp_path: Path, alignment: Path | None) -> None:
    """Phrase pairs of other sentences are aligned with the training text.

    They do not change the alignment of the training text if it is given.
    """
    folder = tmp_path / "system"
    build(folder, alignment=alignment, validation=(MINI / "dev.en", MINI / "dev.fr"), config=IBM1)
    corpus = folder / "corpus"
    for language in ("en", "fr"):
        assert (corpus / f"validation.{language}").read_bytes() == (MINI / f"dev.{language}").read_bytes()
    lines = {name: len((corpus / name).read_bytes().splitlines()) for name in ("train.align", "validation.align")}
    assert lines == {"train.align": 1000, "validation.align": 100}
    assert ((corpus / "train.align").read_bytes() == (MINI / "train.align").read_bytes()) == (alignment is not None)
    known, new = (
        {tuple(line.split(b" ||| ")[:2]) for line in content(place / "phrase-table.gz").splitlines()}
        for place in (folder, folder / "validation")
    )
    assert len(new & known) > 100
    assert len(new - known) > 100
    assert not [path.name for path in corpus.iterdir() if path.name.startswith(".") or path.suffix == ".whole"]


@pytest.mark.parametrize("others", [None, (MINI / "dev.en", MINI / "dev.fr")])
def test_an_alignment_that_is_killed_names_the_text_given(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, others: tuple[Path, Path] | None
) -> None:
    monkeypatch.setattr(word_aligner, "_train", die)
    with pytest.raises(UserError, match="killed, probably for memory") as caught:
        build(tmp_path / "system", alignment=None, validation=others)
    assert str(caught.value).startswith(f"{MINI / 'train.en'}: ")
    assert not (tmp_path / "system").exists()


def test_a_build_that_fails_leaves_the_old_system_as_it_was(system: Path, tmp_path: Path) -> None:
    folder = shutil.copytree(system, tmp_path / "system")
    before = {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    (tmp_path / "bad.align").write_text("0-0\n" * 999 + "0-99\n")
    other = replace(TOKENISED, casing="true")
    for alignment, fault in (
        (tmp_path / "nowhere.align", "cannot be read"),
        (tmp_path / "bad.align", "line 1000: the point `0-99` is outside its sentences"),
    ):
        message = f"^{re.escape(str(alignment))}: {fault}"
        with pytest.raises(UserError, match=message):
            build(folder, text=other, alignment=alignment)
        assert {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()} == before
        assert not (folder / ".building").exists()
        with pytest.raises(UserError, match=message):
            build(tmp_path / "new", alignment=alignment)
        assert not (tmp_path / "new").exists()


def test_other_text_whose_sides_differ_in_length_is_named(tmp_path: Path) -> None:
    (tmp_path / "dev.fr").write_text("un chien\n")
    others = MINI / "dev.en", tmp_path / "dev.fr"
    with pytest.raises(
        UserError, match=f"^{re.escape(str(others[0]))}: has .* lines but {re.escape(str(others[1]))} has 1;"
    ):
        build(tmp_path / "system", alignment=None, validation=others, config=IBM1)
    assert not (tmp_path / "system").exists()


def test_text_that_an_interrupted_build_left_is_not_removed(tmp_path: Path) -> None:
    text = tmp_path / "system/.building/corpus/train.en"
    text.parent.mkdir(parents=True)
    shutil.copy(MINI / "train.en", text)
    with pytest.raises(UserError, match=r"train\.en: is a file of an interrupted build, .*; move it elsewhere"):
        build(tmp_path / "system", text)
    assert text.read_bytes() == (MINI / "train.en").read_bytes()


def test_a_folder_behind_a_link_is_not_emptied(tmp_path: Path) -> None:
    (tmp_path / "precious").mkdir()
    (tmp_path / "precious/file").write_text("precious")
    (tmp_path / "system").mkdir()
    (tmp_path / "system/.building").symlink_to(tmp_path / "precious")
    with pytest.raises(UserError, match=r"system/\.building: is a link; remove it"):
        build(tmp_path / "system")
    assert (tmp_path / "precious/file").read_text() == "precious"


def test_files_named_in_messages_are_kept(tmp_path: Path) -> None:
    """Files that a message names are kept, such as the log of a Moses step."""

    def fail(corpus: Corpus, folder: Path, longest: int, progress: ProgressCallback) -> None:
        (folder / "model.log").write_text("why")
        raise UserError(f"the step failed; see {folder / 'model.log'}")

    with pytest.raises(UserError, match="the step failed"):
        build(tmp_path / "system", tables=fail)
    assert (tmp_path / "system/.building/model.log").read_text() == "why"


def test_a_file_is_no_place_for_a_system(tmp_path: Path) -> None:
    (tmp_path / "train.en").write_text("a\n")
    with pytest.raises(UserError, match=r"train\.en: is a file; give the name of a folder"):
        build(tmp_path / "train.en")
    assert (tmp_path / "train.en").read_text() == "a\n"


@pytest.mark.parametrize("name", ["corpus/train.en", "validation/dev.en", "building/notes", "build.json"])
def test_files_that_no_build_wrote_are_not_touched(tmp_path: Path, name: str) -> None:
    """A folder that `build` did not write is not changed, even if it has a build.json of another program."""
    mine = tmp_path / "mine" / name
    mine.parent.mkdir(parents=True)
    mine.write_text('{"version": 1}')
    with pytest.raises(UserError, match=r"mine: has files but no system that `build` made; give a new or empty folder"):
        build(tmp_path / "mine")
    assert [path for path in (tmp_path / "mine").rglob("*") if path.is_file()] == [mine]
    assert mine.read_text() == '{"version": 1}'


def test_other_files_beside_a_system_stay(system: Path, tmp_path: Path) -> None:
    folder = shutil.copytree(system, tmp_path / "system")
    names, logged = ("corpus/dev.en", "corpus/train.raw.en", "validation/notes", "moses.tuned.ini"), list[str]()
    (folder / "validation").mkdir()
    for name in names:
        (folder / name).write_text(name)
    build(folder, log=logged.append)
    assert logged[-1] == f"{folder}: moses.tuned.ini: from the earlier system; tune again before you translate"
    assert [(folder / name).read_text() for name in names] == [*names]


@pytest.mark.parametrize("before", ["an empty folder", "a system"])
def test_a_build_that_was_killed_can_be_repeated(system: Path, tmp_path: Path, before: str) -> None:
    folder = tmp_path / "system"
    if before == "an empty folder":
        folder.mkdir()
    else:
        shutil.copytree(system, folder)
    texts = [
        f"--{name}={MINI}/train.{end}" for name, end in (("source", "en"), ("target", "fr"), ("alignment", "align"))
    ]
    command = ["build", *texts, "-o", str(folder), "--tokenised", "--escaped", "--toolkit=embedded", "--processes=1"]
    # Killed during the work, then while moving the new system into place.
    for place in ("toolkits.embedded.build_tables", "building.system.write_initial_ini"):
        code = (
            "import os, moses_integration.building.system, moses_integration.toolkits.embedded\n"
            f"from moses_integration.cli import main\nmoses_integration.{place} = lambda *given: os._exit(9)\n"
            f"main({[*command, '--order=3', '-q']})"
        )
        assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 9
    build(folder)
    assert {path.relative_to(folder) for path in folder.rglob("*")} == {
        path.relative_to(system) for path in system.rglob("*")
    }


def test_a_folder_that_cannot_be_made(tmp_path: Path) -> None:
    (tmp_path / "system").symlink_to("system")
    with pytest.raises(UserError, match=r"system: cannot be made \(Too many levels of symbolic links\); check"):
        build(tmp_path / "system")


def test_two_builds_in_one_folder(tmp_path: Path) -> None:
    def build_again(corpus: Corpus, folder: Path, longest: int, progress: ProgressCallback) -> None:
        build(tmp_path / "system")

    with pytest.raises(UserError, match="system: another build is running in it; wait for it or give another folder"):
        build(tmp_path / "system", tables=build_again)
    assert not (tmp_path / "system").exists()


def test_a_system_takes_the_place_of_another(system: Path, tmp_path: Path) -> None:
    """A new system replaces the old one completely.

    Parts that the new one lacks and leftovers of a failed build are removed. The input may be the old system's own
    text.
    """
    folder = shutil.copytree(system, tmp_path / "system")
    for name in ("validation/phrase-table.gz", ".building/corpus/rest"):
        (folder / name).parent.mkdir(parents=True)
        (folder / name).touch()
    corpus = folder / "corpus"
    build(folder, corpus / "train.en", corpus / "train.fr", corpus / "train.align")
    assert {path.relative_to(folder) for path in folder.rglob("*")} == {
        path.relative_to(system) for path in system.rglob("*")
    }
    assert (folder / "moses.ini").read_bytes() == (system / "moses.ini").read_bytes()


def test_an_alignment_of_other_words_is_rejected(tmp_path: Path) -> None:
    """An alignment of other tokens is an error.

    Tokenising splits words, so every point would still be inside its sentence.
    """
    for name, lines in (("a.en", "a b .\na, b.\n"), ("a.fr", "x y .\nx, y.\n"), ("a.align", "0-0\n1-1\n")):
        (tmp_path / name).write_text(lines)
    texts = tmp_path / "a.en", tmp_path / "a.fr", tmp_path / "a.align"
    with pytest.raises(UserError, match=r"a\.en: line 2: has 2 words but 4 when prepared, .* tokenised"):
        build(tmp_path / "system", *texts, text=TextSettings("en", "fr"))


@pytest.mark.parametrize(
    ("language", "word", "message"),
    [
        ("en", "a|b", r"a\.en: line 2: Moses would misread the word `a\|b`; escape"),
        ("fr", "[x]", r"a\.fr: line 2: Moses would misread the word `\[x\]`; escape"),
        ("fr", "a<b", r"a\.fr: line 2: Moses would misread the word `a<b`; escape"),
        ("fr", "<unk>", r"a\.fr: line 2: `<unk>` is reserved in language models"),
    ],
)
@pytest.mark.parametrize("part", ["training", "validation"])
def test_words_that_cannot_be_are_rejected_before_the_alignment(
    language: str, word: str, message: str, part: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Words that Moses cannot read are an error before word alignment.

    The message has the line number of the input, even if lines before it are dropped. Dropped lines may have such
    words.
    """
    for name in ("a.en", "a.fr"):
        bad = word if name.endswith(language) else "x"
        (tmp_path / name).write_text(f"\nx {bad}\n" + (f"{word} " * 99) + "\n")
    texts, good = (tmp_path / "a.en", tmp_path / "a.fr"), (MINI / "train.en", MINI / "train.fr")
    monkeypatch.setattr("moses_integration.building.system.align", None)
    monkeypatch.setattr("moses_integration.building.system.align_together", None)
    train, validation = (texts, good) if part == "training" else (good, texts)
    with pytest.raises(UserError, match=message):
        build(tmp_path / "system", *train, None, validation)


def test_text_that_is_escaped_already_is_reported(tmp_path: Path) -> None:
    (tmp_path / "a.en").write_text("the child\n")
    (tmp_path / "a.fr").write_text("l&apos; enfant\n")
    text, logged = replace(TOKENISED, escape=True), list[str]()
    SystemText(tmp_path, text).prepare("target", tmp_path / "a.fr", tmp_path / "prepared", logged.append)
    others = tmp_path / "a.en", tmp_path / "a.fr"
    build(tmp_path / "system", validation=others, text=text, config=IBM1, log=logged.append)
    fault = f"{tmp_path}/a.fr: has 1 of Moses' escapes, as &apos;, which are treated as text; give tokenised and escap"
    assert sum(line.startswith(fault) for line in logged) == 2


# Text


@pytest.mark.parametrize("casing", ["lower", "true"])
def test_dev_text_is_prepared_as_the_training_text_was(tmp_path: Path, casing: str) -> None:
    for side in ("en", "fr"):
        lines = [line.capitalize() for line in (MINI / f"train.{side}").read_text().splitlines()[:40]]
        (tmp_path / f"raw.{side}").write_text("\n".join(lines) + "\nParis [x] | « L'été » costs 3 < 4.\n")
    text = TextSettings("en", "fr", casing="true" if casing == "true" else "lower")
    ini = build(tmp_path / "system", tmp_path / "raw.en", tmp_path / "raw.fr", None, text=text, config=IBM1)
    prepared = SystemText.of(ini)
    assert prepared is not None
    for side, name in (("source", "en"), ("target", "fr")):
        prepared.prepare(side, tmp_path / f"raw.{name}", tmp_path / "prepared")
        assert (tmp_path / "prepared").read_bytes() == (tmp_path / f"system/corpus/train.{name}").read_bytes()
    last = (tmp_path / "prepared").read_text().splitlines()[-1]
    assert "&#91; x &#93; &#124;" in last
    assert last.startswith("Paris" if casing == "true" else "paris")
    plain = b"".join(prepared.settings.detokenise(iter([last.encode()]))).decode()
    assert "[x] |" in plain
    assert plain.endswith("4.")


def test_preparation_is_found_though_table_and_ini_stand_elsewhere(system: Path, tmp_path: Path) -> None:
    ini = MosesIni.read(system / "moses.ini")
    shutil.copy(MINI / "phrase-table.5.gz", tmp_path / "wider.gz")
    add_columns(ini, "TranslationModel0", tmp_path / "wider.gz", 1)
    ini.write(tmp_path / "tuned.ini")
    found = SystemText.of(MosesIni.read(tmp_path / "tuned.ini"))
    assert found is not None
    assert found.settings == TOKENISED


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        ({"target_language": None}, r"is damaged \(settings: target_language is None; give a text\)"),
        ({"casing": "True"}, r"is damaged \(settings: casing is 'True'; choose one of lower, true, keep\)"),
        (
            {"tokenise": "false"},
            r"is damaged \(settings: tokenise is 'false'; give true or false\); build the sys",
        ),
    ],
)
def test_text_of_a_system_that_was_built_otherwise(
    system: Path, tmp_path: Path, damage: dict[str, object], message: str
) -> None:
    assert SystemText.of(MosesIni.read(MINI / "moses.ini")) is None
    folder = shutil.copytree(system, tmp_path / "system")
    ini, path = MosesIni.read(folder / "moses.ini"), folder / "preparation.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | damage))
    with pytest.raises(UserError, match=rf"preparation\.json: {message}"):
        SystemText.of(ini)
    path.write_text('{"source_language": "en"}')
    with pytest.raises(UserError, match=r"preparation\.json: is damaged .*; build the system again"):
        SystemText.of(ini)


# A real Moses


@pytest.mark.moses
def test_both_toolkits_build_the_same_and_use_each_others_systems(
    moses_home: Path, system: Path, tmp_path: Path, small_dev: tuple[Path, Path]
) -> None:
    source, reference = small_dev
    moses = MosesToolkit(Installation(moses_home), 2)
    build(tmp_path / "system", tables=moses.build_tables)
    for name in TABLES:
        assert content(tmp_path / "system" / name) == content(system / name), name
    assert (tmp_path / "system/moses.ini").read_bytes() == (system / "moses.ini").read_bytes()
    embedded = EMBEDDED
    found = []
    for toolkit, folder in ((moses, system), (embedded, tmp_path / "system")):
        ini = MosesIni.read(folder / "moses.ini")
        work = tmp_path / toolkit.name
        work.mkdir()
        settings = TuningConfig(nbest=20, iterations=2, restarts=1)
        (tuning,) = toolkit.tune(ini, TuningRequest(source, [reference], [1], settings, work))
        assert tuning.bleu > 80
        ini.set_weights(tuning.weights)
        with toolkit.translator(ini, source, work) as translate:
            translate(ini.weights(), work / "out", NbestRequest(work / "nbest", 3))
        found.append((tuning.bleu, (work / "out").read_bytes().count(b"\n")))
    assert found[0][1] == found[1][1] == 12
    # The same initial weights and the same tables give the same translations.
    ini = MosesIni.read(system / "moses.ini")
    for toolkit in (moses, embedded):
        with toolkit.translator(ini, source, tmp_path / "work") as translate:
            translate(ini.weights(), tmp_path / f"{toolkit.name}.out")
    assert (tmp_path / "moses.out").read_bytes() == (tmp_path / "embedded.out").read_bytes()


@pytest.mark.moses
def test_what_moses_would_misread_is_rejected(moses_home: Path, tmp_path: Path) -> None:
    """An alignment point outside its sentence is an error, although Moses' extraction accepts it."""
    (tmp_path / "train.align").write_text("0-0\n" * 999 + "0-99\n")
    with pytest.raises(UserError, match="line 1000: the point `0-99` is outside its sentences"):
        build(
            tmp_path / "system",
            alignment=tmp_path / "train.align",
            tables=MosesToolkit(Installation(moses_home), 1).build_tables,
        )


@pytest.mark.moses
def test_several_references_on_the_toolkit_of_moses(
    moses_home: Path, tmp_path: Path, small_dev: tuple[Path, Path]
) -> None:
    """The Moses toolkit tunes with several compressed references.

    One of them is Moses' own translation, so the dev BLEU is 100.
    """
    made = tmp_path / "made.gz"
    made.write_bytes(gzip.compress(b"".join((MINI / "decode/default.out").read_bytes().splitlines(True)[:12])))
    moses = MosesToolkit(Installation(moses_home), 2)
    settings = TuningConfig(nbest=10, iterations=2, restarts=1)
    request = TuningRequest(small_dev[0], [small_dev[1], made], [3], settings, tmp_path / "w", print)
    (tuning,) = moses.tune(MosesIni.read(MINI / "moses.ini"), request)
    assert tuning.seed == 3
    assert tuning.bleu == 100


@pytest.fixture
def corpus() -> Corpus:
    return Corpus(MINI / "train.en", MINI / "train.fr", MINI / "train.align")


@pytest.mark.moses
def test_a_step_of_the_training_that_fails(moses_home: Path, tmp_path: Path, corpus: Corpus) -> None:
    broken = tmp_path / "moses"
    (broken / "bin").mkdir(parents=True)
    # Not a symbolic link, because the scripts look for files beside their real path.
    for scripts in ("training", "generic"):
        shutil.copytree(moses_home / "scripts" / scripts, broken / "scripts" / scripts)
    for program in (moses_home / "bin").iterdir():
        (broken / "bin" / program.name).symlink_to(program)
    (broken / "bin/consolidate").unlink()
    (tmp_path / "out").mkdir()
    with pytest.raises(UserError) as caught:
        MosesToolkit(Installation(broken), 1).build_tables(corpus, tmp_path / "out", 7)
    assert str(caught.value).startswith("tables: ")
    assert "train-model.perl" in str(caught.value)
    assert str(tmp_path / "out/train-model.log") in str(caught.value)
