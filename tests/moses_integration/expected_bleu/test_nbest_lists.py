from __future__ import annotations

import gzip
from pathlib import Path

import numpy as np
import pytest

from moses_integration.building.aligned_corpus import Corpus
from moses_integration.decoder.declaration import declare_model
from moses_integration.expected_bleu.nbest_lists import Fold, NbestList, decode_fold, join
from moses_integration.ini import MosesIni
from moses_integration.tuning.bleu import bleu_statistics
from tests.conftest import MINI

INI = MosesIni.read(MINI / "moses.tuned.ini")


@pytest.fixture
def fold(tmp_path: Path) -> Fold:
    """A few dev sentences, the last one with an unknown word, decoded with the system of the whole text."""
    corpus = Corpus.in_folder(tmp_path, "train", ("en", "fr"))
    for path in (corpus.source, corpus.target):
        lines = (MINI / f"dev{path.suffix}").read_bytes().splitlines()[:9]
        path.write_bytes(b"\n".join([*lines, b"unheard the"]) + b"\n")
    return Fold(tmp_path, corpus, np.arange(10) // 2, INI)


@pytest.fixture(autouse=True)
def short_lists(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("moses_integration.expected_bleu.nbest_lists.SIZE", 10)


def decoded(fold: Fold, sentences: int = 100, seed: int = 1, processes: int = 1) -> list[NbestList]:
    return [one for _, one in decode_fold(fold, fold, sentences, seed, processes)]


@pytest.fixture
def listed(fold: Fold) -> list[NbestList]:
    return decoded(fold)


def test_the_phrase_pairs_of_each_translation(fold: Fold, listed: list[NbestList]) -> None:
    """Each translation has its phrase pairs.

    Features add up to the decoder's score, and pairs cover all words except copied ones.
    """
    table = gzip.decompress((MINI / "phrase-table.gz").read_bytes()).splitlines()
    known = {tuple(line.split(b" ||| ")[:2]) for line in table}
    sources, targets = (path.read_bytes().splitlines() for path in (fold.corpus.source, fold.corpus.target))
    weights_F = declare_model(INI).weights_F
    assert len(listed) == 10
    for one, source, target in zip(listed, sources, targets, strict=True):
        assert len(one.features_HF) == len(one.statistics_H9) == len(one.uses_H) <= 10
        assert (np.diff(one.features_HF @ weights_F) < 1e-4).all()
        assert {*one.pairs} <= known
        made = np.split(one.pair_U, np.cumsum(one.uses_H)[:-1])
        for pairs, counted in zip(made, one.statistics_H9, strict=True):
            words = b" ".join(one.pairs[pair][1] for pair in pairs)
            read = b" ".join(one.pairs[pair][0] for pair in pairs)
            if b"unheard" in source:
                assert sorted(read.split()) == [b"the"]
            else:
                assert sorted(read.split()) == sorted(source.split())
                assert bleu_statistics([target], [words])[0].tolist() == counted.tolist()


def test_lists_are_joined_without_those_that_are_empty(listed: list[NbestList]) -> None:
    empty = NbestList(
        np.zeros((0, 1), np.float32), np.zeros((0, 9), np.int32), np.zeros(0, np.int32), np.zeros(0, np.int32), ()
    )
    groups = [0, 0, 1, 7, 1, 2]
    lists = join(zip([7, *groups], [empty, *listed[:3], empty, *listed[3:5]], strict=True))
    assert lists.group_L.tolist() == [0, 0, 1, 1, 2]
    assert np.diff(lists.offsets).tolist() == [len(one.features_HF) for one in listed[:5]]
    assert len({*lists.pairs}) == len(lists.pairs) == lists.uses_HP.shape[1]
    found = [lists.pairs[pair] for pair in lists.uses_HP.indices]
    assert found == [one.pairs[pair] for one in listed[:5] for pair in one.pair_U]
    assert len(join([])) == len(join([(7, empty)])) == 0


def test_processes_do_not_matter(fold: Fold, listed: list[NbestList]) -> None:
    shared = decoded(fold, processes=2)
    for one, other in zip(listed, shared, strict=True):
        assert one.pairs == other.pairs
        assert one.features_HF == pytest.approx(other.features_HF)
        assert one.statistics_H9.tolist() == other.statistics_H9.tolist()


def test_a_seed_draws_sentences(fold: Fold, listed: list[NbestList]) -> None:
    """A seed samples sentences without replacement and keeps their order."""
    drawn = [decoded(fold, 3, seed) for seed in (1, 1, 2)]
    places = [[[one.pairs for one in listed].index(found.pairs) for found in some] for some in drawn]
    assert places[0] == places[1] != places[2]
    assert all(len({*some}) == 3 and sorted(some) == some for some in places)
