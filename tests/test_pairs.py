from __future__ import annotations

import gzip
import resource
from pathlib import Path

import numpy as np
import pytest

from phrasescore.errors import UserError
from phrasescore.pairs import DataConfig, PairData, open_sides, read_table
from phrasescore.phrases import Phrases, hash_phrases
from tests.conftest import MINI

LINES = gzip.decompress((MINI / "phrase-table.gz").read_bytes()).splitlines()


def read_lines(tmp_path: Path, *lines: bytes, config: DataConfig | None = None) -> PairData:
    (tmp_path / "table").write_bytes(b"".join(line + b"\n" for line in lines))
    return read_table(tmp_path / "table", tmp_path, config or DataConfig())


def texts(data: PairData) -> list[tuple[bytes, bytes]]:
    """Return the pairs of all lines as words."""
    sides = []
    for vocabulary, phrases in (
        (data.source_vocabulary, data.pairs.source),
        (data.target_vocabulary, data.pairs.target),
    ):
        bounds = zip(phrases.offsets, phrases.offsets[1:], strict=False)
        sides.append([b" ".join(vocabulary.words[i] for i in phrases.ids[a:b]) for a, b in bounds])
    return list(zip(*sides, strict=True))


def test_pairs_are_those_of_the_table(tmp_path: Path) -> None:
    data = read_table(MINI / "phrase-table.gz", tmp_path, DataConfig())
    expected = [tuple(line.split(b" ||| ")[:2]) for line in LINES]
    assert texts(data) == expected
    assert data.distinct.tolist() == list(range(len(LINES)))
    assert data.summary["source_coverage"] == 1
    assert data.summary["counts_in_table"]
    assert not list(tmp_path.iterdir()), "the id files have no names once they are mapped"


def test_the_most_frequent_words_by_joint_count(tmp_path: Path) -> None:
    lines = (
        b"a ||| x ||| 1 ||| 0-0 ||| 1 1 1",
        b"b ||| y ||| 1 ||| 0-0 ||| 9 9 9",
        b"a a ||| z ||| 1 ||| 0-0 ||| 1 1 2",
    )
    data = read_lines(tmp_path, *lines, config=DataConfig(source_vocabulary=1, target_vocabulary=2))
    assert data.source_vocabulary.words[2:] == (b"b",)
    assert data.target_vocabulary.words[2:] == (b"y", b"z")
    assert texts(data)[2] == (b"<unk> <unk>", b"z")
    assert data.summary["source_coverage"] == 9 / 14
    uncounted = read_lines(tmp_path, b"a ||| x ||| 1", b"a ||| y ||| 1", b"b ||| y ||| 1")
    assert uncounted.source_vocabulary.words[2:] == (b"a", b"b")
    assert not uncounted.summary["counts_in_table"]


def test_words_can_be_counted_in_texts(tmp_path: Path) -> None:
    (tmp_path / "text").write_bytes(b"b b a\n")
    config = DataConfig(source_vocabulary=1, source_corpus=tmp_path / "text")
    data = read_lines(tmp_path, b"a ||| x ||| 1", b"a ||| y ||| 1", b"b ||| y ||| 1", config=config)
    assert data.source_vocabulary.words[2:] == (b"b",)
    assert data.target_vocabulary.words[2:] == (b"y", b"x")


def test_each_distinct_pair_once(tmp_path: Path) -> None:
    lines = (
        b"a ||| x ||| 1 ||| 0-0 ||| 2 2 2",
        b"b ||| x ||| 1 ||| 0-0 ||| 1 1 1",
        b"a ||| x ||| 0.5 ||| 0-0 ||| 3 3 3",
        b"x ||| a ||| 1 ||| 0-0 ||| 2 2 2",
    )
    data = read_lines(tmp_path, *lines)
    assert data.distinct.tolist() == [0, 1, 3]


def test_the_other_direction_swaps_the_sides(tmp_path: Path) -> None:
    config = DataConfig(direction="source-given-target", source_vocabulary=1, target_vocabulary=5)
    data = read_lines(tmp_path, b"a ||| x y ||| 1", b"a ||| y ||| 1", b"b ||| y ||| 1", config=config)
    assert texts(data) == [(b"x y", b"a"), (b"y", b"a"), (b"y", b"<unk>")]


def test_an_empty_table_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="contains no phrase pairs"):
        read_lines(tmp_path)


def test_hashes_of_different_phrases_differ() -> None:
    lists = [[], [0], [0, 0], [1], [0, 1], [1, 0], [5, 6, 7], [7, 6, 5], [256], [1, 256]]
    hashes = hash_phrases(Phrases.from_lists(lists))
    assert len(set(hashes.tolist())) == len(lists)
    assert hash_phrases(Phrases.from_lists(lists[::-1])).tolist() == hashes.tolist()[::-1]


def test_a_full_disk_names_the_temporary_file(tmp_path: Path) -> None:
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (4096, before[1]))
    try:
        with (
            pytest.raises(UserError, match=rf"^a temporary file in {tmp_path}: cannot be written \(File too large\)"),
            open_sides(tmp_path) as (source, _),
        ):
            source.add([b"a b"] * 1000, np.ones(1000, np.float32))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
