from __future__ import annotations

import gzip
import shutil
from contextlib import suppress
from pathlib import Path

import pytest

from moses_integration.building.aligned_corpus import Corpus
from moses_integration.building.system import has_start_weights
from moses_integration.building.translation_tables import build_tables
from moses_integration.decoder.declaration import load_model
from moses_integration.decoder.settings import DecoderSettings
from moses_integration.expected_bleu.nbest_lists import (
    Fold,
    assign_folds,
    build_folds,
    group_pairs,
    require_rebuildable,
    training_corpus,
)
from moses_integration.ini import MosesIni
from phrasescore.errors import UserError
from tests.conftest import MINI
from tests.moses_integration.mini_system import mini_system

INI = MosesIni.read(MINI / "moses.tuned.ini")
CORPUS = Corpus.in_folder(MINI, "train", ("en", "fr"))


def test_each_fold_has_a_system_of_its_sentences(tmp_path: Path) -> None:
    folds = build_folds(INI, CORPUS, tmp_path, processes=1)
    for side in ("source", "target", "alignment"):
        whole = getattr(CORPUS, side).read_bytes().splitlines()
        assert [getattr(fold.corpus, side).read_bytes().splitlines() for fold in folds] == [whole[::2], whole[1::2]]
    for fold in folds:
        assert len(fold.group_N) == len(fold.corpus.source.read_bytes().splitlines())
        (tmp_path / "alone").mkdir()
        build_tables(fold.corpus.source, fold.corpus.target, fold.corpus.alignment, tmp_path / "alone")
        for path in (tmp_path / "alone").glob("*.gz"):
            assert gzip.decompress(path.read_bytes()) == gzip.decompress((fold.folder / path.name).read_bytes())
        shutil.rmtree(tmp_path / "alone")
        assert fold.ini.weights() == INI.weights()
        used = {feature.label: fold.ini.path_of(feature) for feature in fold.ini.features() if feature.arguments}
        assert {path.parent for path in used.values()} == {fold.folder}
        load_model(fold.ini, [(b"the",)], DecoderSettings())


def corpus_of(folder: Path, pairs: str) -> Corpus:
    """Make a text of pairs of one word each, such as `aA bB`."""
    corpus = Corpus.in_folder(folder, "train", ("en", "fr"))
    for path, side in ((corpus.source, 0), (corpus.target, 1)):
        path.write_text("".join(f"{pair[side]}\n" for pair in pairs.split()))
    corpus.alignment.write_text("0-0\n" * len(pairs.split()))
    return corpus


@pytest.mark.parametrize(
    ("pairs", "grouped", "folded"),
    [
        ("aA bB cC dD", [0, 1, 2, 3], [0, 1, 0, 1]),
        ("aA bB aA cB dD", [0, 1, 0, 1, 2], [0, 1, 0, 1, 0]),
        ("aA bB aC dC eB fF", [0, 1, 0, 0, 1, 2], [0, 1, 0, 0, 1, 1]),
        ("aB bA cC", [0, 1, 2], [0, 1, 0]),
        ("aA bB bA", [0, 0, 0], [0, 0, 0]),
    ],
)
def test_pairs_that_share_a_side_are_in_one_fold(
    pairs: str, grouped: list[int], folded: list[int], tmp_path: Path
) -> None:
    """Pairs that share a side are in the same fold, also indirectly; a text with a single group is not divided."""
    group_N = group_pairs(corpus_of(tmp_path, pairs))
    assert group_N.tolist() == grouped
    assert assign_folds(group_N).tolist() == folded


def test_folds_are_disjoint(tmp_path: Path) -> None:
    """Folds are disjoint, even if the text contains every sentence pair twice."""
    corpus = Corpus.in_folder(tmp_path, "train", ("en", "fr"))
    for path, whole in (
        (corpus.source, CORPUS.source),
        (corpus.target, CORPUS.target),
        (corpus.alignment, CORPUS.alignment),
    ):
        path.write_bytes(b"".join(2 * line for line in whole.read_bytes().splitlines(keepends=True)[:100]))
    folds = build_folds(INI, corpus, tmp_path, processes=1)
    for side in ("source", "target"):
        first, second = ({*getattr(fold.corpus, side).read_bytes().splitlines()} for fold in folds)
        assert first.isdisjoint(second)
    assert sum(len(fold.group_N) for fold in folds) == 200


def test_lines_that_are_empty_on_one_side_only(tmp_path: Path) -> None:
    corpus, warned = corpus_of(tmp_path, "aA aB cB"), list[str]()
    corpus.target.write_text("A\n\nB\n")
    corpus.alignment.write_text("0-0\n\n0-0\n")
    (tmp_path / "work").mkdir()
    with suppress(UserError):  # a fold has no phrase pairs
        build_folds(INI, corpus, tmp_path / "work", processes=1, log=warned.append)
    names = f"{corpus.source} and {corpus.target}"
    assert warned[0].startswith(f"{names}: 1 line is empty on one side only, the first is line 2; check")


@pytest.mark.parametrize("pairs", ["aA", "aA aB cB"])
def test_a_text_of_one_group_is_not_divided(pairs: str, tmp_path: Path) -> None:
    with pytest.raises(
        UserError, match=r"train\.en: cannot be divided, because it has one sentence only, or all share a side"
    ):
        build_folds(INI, corpus_of(tmp_path, pairs), tmp_path / "work")


def test_the_longest_phrase_is_that_of_the_system(tmp_path: Path) -> None:
    """The maximum phrase length comes from the report of `build`, not from other files of that name."""
    ini = MosesIni.read(MINI / "moses.ini").with_absolute_paths()
    ini.folder = tmp_path
    (tmp_path / "build.json").write_text('{"settings": {"longest_phrase": 2}}')
    assert longest_source(build_folds(ini, CORPUS, tmp_path, processes=1)[0]) == 7
    (tmp_path / "preparation.json").write_text('{"source_language": "en", "target_language": "fr"}')
    assert longest_source(build_folds(ini, CORPUS, tmp_path, processes=1)[0]) == 2


def longest_source(fold: Fold) -> int:
    lines = gzip.decompress((fold.folder / "phrase-table.gz").read_bytes()).splitlines()
    return max(len(line.split(b" ||| ")[0].split()) for line in lines)


def test_the_text_of_a_system_is_found(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="is not the ini of a system that `build` made; give the prepared text"):
        training_corpus(INI)
    (tmp_path / "corpus").mkdir()
    (tmp_path / "preparation.json").write_text('{"source_language": "en", "target_language": "fr"}')
    ini = MosesIni.read(MINI / "moses.ini").with_absolute_paths()
    ini.folder = tmp_path
    with pytest.raises(UserError, match=r"train\.en: does not exist; give the prepared text"):
        training_corpus(ini)
    for path in (CORPUS.source, CORPUS.target, CORPUS.alignment):
        shutil.copy(path, tmp_path / "corpus")
    assert training_corpus(ini) == Corpus.in_folder(tmp_path / "corpus", "train", ("en", "fr"))


def edited(before: str, after: str) -> MosesIni:
    text = "".join(INI.lines)
    assert before in text
    return MosesIni(text.replace(before, after).splitlines(keepends=True), "moses.ini", MINI)


def test_a_system_as_build_makes_it_is_rebuildable() -> None:
    require_rebuildable(INI)


@pytest.mark.parametrize(
    ("ini", "kind"),
    [
        (MosesIni.read(MINI / "moses.5.ini"), "PhraseDictionaryMemory"),
        (edited("wbe-msd-bidirectional-fe-allff", "wbe-msd-bidirectional-f-allff"), "LexicalReordering"),
        (edited("order=3", "order=9"), "KENLM"),
    ],
)
def test_another_system_is_not(ini: MosesIni, kind: str) -> None:
    with pytest.raises(UserError, match=f"{kind} is not as `build` estimates it"):
        require_rebuildable(ini)


def test_a_neural_language_model_is_not_rebuildable(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="line 25: CSLM is not as `build` estimates it; give the ini of a system"):
        require_rebuildable(MosesIni.read(mini_system(tmp_path)))


def test_messages_name_the_files_of_the_user(tmp_path: Path) -> None:
    (tmp_path / "align").write_bytes(CORPUS.alignment.read_bytes().replace(b"0-0", b"0-99", 1))
    corpus = Corpus(CORPUS.source, CORPUS.target, tmp_path / "align")
    with pytest.raises(UserError, match=r"align: line \d+: the point `0-99` is outside"):
        build_folds(INI, corpus, tmp_path)


def test_untuned_weights_are_recognised() -> None:
    assert has_start_weights(MosesIni.read(MINI / "moses.ini")) is not has_start_weights(INI)
