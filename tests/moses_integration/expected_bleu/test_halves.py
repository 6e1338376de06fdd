from __future__ import annotations

import gzip
import shutil
from pathlib import Path

import pytest

from moses_integration.build.corpus import Corpus
from moses_integration.build.system import has_start_weights
from moses_integration.build.translation_tables import build_tables
from moses_integration.decoder.declaration import load_model
from moses_integration.expected_bleu.halves import build_halves, require_divisible, training_corpus
from moses_integration.ini import MosesIni
from phrasescore.errors import UserError
from tests.conftest import MINI
from tests.moses_integration.mini_system import mini_system

INI = MosesIni.read(MINI / "moses.tuned.ini")
CORPUS = Corpus.in_folder(MINI, "train", ("en", "fr"))


def test_each_half_has_a_system_of_its_sentences(tmp_path: Path) -> None:
    halves = build_halves(INI, CORPUS, tmp_path, processes=1)
    for side in ("source", "target", "alignment"):
        whole = getattr(CORPUS, side).read_bytes().splitlines()
        assert [getattr(half.corpus, side).read_bytes().splitlines() for half in halves] == [whole[::2], whole[1::2]]
    for half in halves:
        assert half.sentences == len(half.corpus.source.read_bytes().splitlines())
        (tmp_path / "alone").mkdir()
        build_tables(half.corpus.source, half.corpus.target, half.corpus.alignment, tmp_path / "alone")
        for path in (tmp_path / "alone").glob("*.gz"):
            assert gzip.decompress(path.read_bytes()) == gzip.decompress((half.folder / path.name).read_bytes())
        shutil.rmtree(tmp_path / "alone")
        assert half.ini.weights() == INI.weights()
        used = {feature.label: half.ini.path_of(feature) for feature in half.ini.features() if feature.arguments}
        assert {path.parent for path in used.values()} == {half.folder}
        load_model(half.ini, [(b"the",)], 7)


def test_phrases_are_as_long_as_the_system_has_them(tmp_path: Path) -> None:
    """The report of `build` says it."""
    folder = tmp_path / "system" / "corpus"
    folder.mkdir(parents=True)
    for path in (CORPUS.source, CORPUS.target, CORPUS.alignment):
        shutil.copy(path, folder)
    (folder.parent / "build.json").write_text('{"settings": {"longest_phrase": 2}}')
    first, _ = build_halves(INI, Corpus.in_folder(folder, "train", ("en", "fr")), tmp_path, processes=1)
    lines = gzip.decompress((first.folder / "phrase-table.gz").read_bytes()).splitlines()
    assert max(len(line.split(b" ||| ")[0].split()) for line in lines) == 2


def test_the_text_of_a_system_is_found(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="is not of a system that `build` made; give the prepared text"):
        training_corpus(INI)
    (tmp_path / "corpus").mkdir()
    (tmp_path / "preparation.json").write_text('{"source_language": "en", "target_language": "fr"}')
    ini = MosesIni.read(MINI / "moses.ini").with_absolute_paths()
    ini.folder = tmp_path
    with pytest.raises(UserError, match=r"train\.en: is not there; give the prepared text"):
        training_corpus(ini)
    for path in (CORPUS.source, CORPUS.target, CORPUS.alignment):
        shutil.copy(path, tmp_path / "corpus")
    assert training_corpus(ini) == Corpus.in_folder(tmp_path / "corpus", "train", ("en", "fr"))


def edited(before: str, after: str) -> MosesIni:
    text = "".join(INI.lines)
    assert before in text
    return MosesIni(text.replace(before, after).splitlines(keepends=True), "moses.ini", MINI)


def test_a_system_as_build_makes_it_is_divisible() -> None:
    require_divisible(INI)


@pytest.mark.parametrize(
    ("ini", "sentence"),
    [
        (MosesIni.read(MINI / "moses.5.ini"), "the phrase table has 5 scores, not 4"),
        (
            edited("wbe-msd-bidirectional-fe-allff", "wbe-msd-bidirectional-f-allff"),
            "the reordering table is not wbe-msd",
        ),
        (edited("order=3", "order=9"), "order=9 is not one that we estimate"),
    ],
)
def test_another_system_is_not(ini: MosesIni, sentence: str) -> None:
    with pytest.raises(UserError, match=sentence):
        require_divisible(ini)


def test_a_neural_language_model_is_not_of_a_half(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="line 25: CSLM is not made of the training text; give the ini of a system"):
        require_divisible(MosesIni.read(mini_system(tmp_path)))


def test_one_sentence_has_no_halves(tmp_path: Path) -> None:
    corpus = Corpus.in_folder(tmp_path, "train", ("en", "fr"))
    for path, line in ((corpus.source, "a"), (corpus.target, "b"), (corpus.alignment, "0-0")):
        path.write_text(line + "\n")
    with pytest.raises(UserError, match=r"train\.en: has one sentence only"):
        build_halves(INI, corpus, tmp_path / "work")


def test_faults_of_a_text_are_told_by_its_names(tmp_path: Path) -> None:
    (tmp_path / "align").write_bytes(CORPUS.alignment.read_bytes().replace(b"0-0", b"0-99", 1))
    corpus = Corpus(CORPUS.source, CORPUS.target, tmp_path / "align")
    with pytest.raises(UserError, match=r"align: line \d+: the point `0-99` lies outside"):
        build_halves(INI, corpus, tmp_path)


def test_weights_are_known_for_those_that_systems_start_with() -> None:
    assert has_start_weights(MosesIni.read(MINI / "moses.ini")) is not has_start_weights(INI)
