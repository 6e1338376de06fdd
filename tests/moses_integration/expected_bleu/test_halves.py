from __future__ import annotations

import gzip
import shutil
from contextlib import suppress
from pathlib import Path

import pytest

from moses_integration.building.aligned_corpus import Corpus
from moses_integration.building.initial_ini import has_start_weights
from moses_integration.building.translation_tables import build_tables
from moses_integration.decoder.declaration import load_model
from moses_integration.decoder.settings import DecoderSettings
from moses_integration.expected_bleu.halves import (
    Half,
    build_halves,
    divide,
    groups,
    require_divisible,
    training_corpus,
)
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
        load_model(half.ini, [(b"the",)], DecoderSettings())


def corpus_of(folder: Path, pairs: str) -> Corpus:
    """A text of pairs of one word each, as in `aA bB`."""
    corpus = Corpus.in_folder(folder, "train", ("en", "fr"))
    for path, side in ((corpus.source, 0), (corpus.target, 1)):
        path.write_text("".join(f"{pair[side]}\n" for pair in pairs.split()))
    corpus.alignment.write_text("0-0\n" * len(pairs.split()))
    return corpus


@pytest.mark.parametrize(
    ("pairs", "grouped", "halved"),
    [
        ("aA bB cC dD", [0, 1, 2, 3], [0, 1, 0, 1]),
        ("aA bB aA cB dD", [0, 1, 0, 1, 2], [0, 1, 0, 1, 0]),
        ("aA bB aC dC eB fF", [0, 1, 0, 0, 1, 2], [0, 1, 0, 0, 1, 1]),
        ("aB bA cC", [0, 1, 2], [0, 1, 0]),
        ("aA bB bA", [0, 0, 0], [0, 0, 0]),
    ],
)
def test_pairs_that_share_a_side_are_in_one_half(
    pairs: str, grouped: list[int], halved: list[int], tmp_path: Path
) -> None:
    """Also if others come between them; the halves are as large as can be, and none of a text that is all one."""
    group_N = groups(corpus_of(tmp_path, pairs))
    assert group_N.tolist() == grouped
    assert divide(group_N).tolist() == halved


def test_no_half_has_seen_what_the_other_has(tmp_path: Path) -> None:
    """Of a text with every sentence pair twice."""
    corpus = Corpus.in_folder(tmp_path, "train", ("en", "fr"))
    for path, whole in (
        (corpus.source, CORPUS.source),
        (corpus.target, CORPUS.target),
        (corpus.alignment, CORPUS.alignment),
    ):
        path.write_bytes(b"".join(2 * line for line in whole.read_bytes().splitlines(keepends=True)[:100]))
    halves = build_halves(INI, corpus, tmp_path, processes=1)
    for side in ("source", "target"):
        first, second = ({*getattr(half.corpus, side).read_bytes().splitlines()} for half in halves)
        assert first.isdisjoint(second)
    assert sum(half.sentences for half in halves) == 200


def test_lines_that_are_empty_on_one_side_only(tmp_path: Path) -> None:
    corpus, said = corpus_of(tmp_path, "aA aB cB"), list[str]()
    corpus.target.write_text("A\n\nB\n")
    corpus.alignment.write_text("0-0\n\n0-0\n")
    (tmp_path / "work").mkdir()
    with suppress(UserError):  # of a part that has no phrase pairs
        build_halves(INI, corpus, tmp_path / "work", processes=1, say=said.append)
    names = f"{corpus.source} and {corpus.target}"
    assert said[0].startswith(f"{names}: 1 line is empty on one side only, the first is line 2; check")


@pytest.mark.parametrize("pairs", ["aA", "aA aB cB"])
def test_a_text_that_is_all_one_is_not_divided(pairs: str, tmp_path: Path) -> None:
    with pytest.raises(
        UserError, match=r"train\.en: cannot be divided, for it has one sentence only, or all share a side"
    ):
        build_halves(INI, corpus_of(tmp_path, pairs), tmp_path / "work")


def test_phrases_are_as_long_as_the_system_has_them(tmp_path: Path) -> None:
    """The report of `build` says it, if the system is of `build`; no other file of that name does."""
    ini = MosesIni.read(MINI / "moses.ini").with_absolute_paths()
    ini.folder = tmp_path
    (tmp_path / "build.json").write_text('{"settings": {"longest_phrase": 2}}')
    assert longest_source(build_halves(ini, CORPUS, tmp_path, processes=1)[0]) == 7
    (tmp_path / "preparation.json").write_text('{"source_language": "en", "target_language": "fr"}')
    assert longest_source(build_halves(ini, CORPUS, tmp_path, processes=1)[0]) == 2


def longest_source(half: Half) -> int:
    lines = gzip.decompress((half.folder / "phrase-table.gz").read_bytes()).splitlines()
    return max(len(line.split(b" ||| ")[0].split()) for line in lines)


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


def test_faults_of_a_text_are_told_by_its_names(tmp_path: Path) -> None:
    (tmp_path / "align").write_bytes(CORPUS.alignment.read_bytes().replace(b"0-0", b"0-99", 1))
    corpus = Corpus(CORPUS.source, CORPUS.target, tmp_path / "align")
    with pytest.raises(UserError, match=r"align: line \d+: the point `0-99` lies outside"):
        build_halves(INI, corpus, tmp_path)


def test_weights_are_known_for_those_that_systems_start_with() -> None:
    assert has_start_weights(MosesIni.read(MINI / "moses.ini")) is not has_start_weights(INI)
