"""Parallel text as ids."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest

from phrasescore.errors import UserError
from phrasescore.pairs import DataConfig, PairData
from phrasescore.parallel_text import ParallelText, SentenceConfig, read_sentences
from phrasescore.phrases import Phrases
from phrasescore.vocabulary import Vocabulary

SOURCE = "b a b\n\na  c\r\nd d d d\nb"
TARGET = "x y\nx\nz\nx x\ny x\n"


@pytest.fixture
def text(tmp_path: Path) -> ParallelText:
    """Five lines, one with an empty side."""
    (tmp_path / "source").write_text(SOURCE)
    (tmp_path / "target.gz").write_bytes(gzip.compress(TARGET.encode()))
    return ParallelText(tmp_path / "source", tmp_path / "target.gz")


def spelt(vocabulary: Vocabulary, phrases: Phrases) -> list[str]:
    bounds = zip(phrases.offsets, phrases.offsets[1:], strict=False)
    return [b" ".join(vocabulary.words[word] for word in phrases.ids[a:b]).decode() for a, b in bounds]


def sides(data: PairData) -> tuple[list[str], list[str]]:
    return spelt(data.source_vocabulary, data.pairs.source), spelt(data.target_vocabulary, data.pairs.target)


def test_lines_become_pairs(text: ParallelText, tmp_path: Path) -> None:
    data = read_sentences(text, tmp_path, DataConfig(), SentenceConfig())
    assert sides(data) == (["b a b", "a c", "d d d d", "b"], ["x y", "z", "x x", "y x"])
    assert data.source_vocabulary.known_words == (b"d", b"b", b"a", b"c")
    assert data.target_vocabulary.known_words == (b"x", b"y", b"z")
    assert data.distinct.tolist() == [0, 1, 2, 3]
    assert (data.summary["lines"], data.summary["sentence_pairs"]) == (5, 4)
    assert data.summary["source_coverage"] == 1.0


def test_rare_words_and_long_sentences_are_excluded(text: ParallelText, tmp_path: Path) -> None:
    data = read_sentences(text, tmp_path, DataConfig(), SentenceConfig(min_count=2, max_words=3))
    assert sides(data) == (["b a b", "a <unk>", "b"], ["x y", "<unk>", "y x"])
    # Validation text is complete and uses the given vocabularies.
    known = data.source_vocabulary, data.target_vocabulary
    other = read_sentences(text, tmp_path, DataConfig(), SentenceConfig(min_count=2, max_words=3), known)
    assert sides(other)[0] == ["b a b", "a <unk>", "<unk> <unk> <unk> <unk>", "b"]
    assert other.digest != data.digest


def test_the_other_direction(text: ParallelText, tmp_path: Path) -> None:
    data = read_sentences(text, tmp_path, DataConfig(direction="source-given-target"), SentenceConfig())
    assert sides(data)[0] == ["x y", "z", "x x", "y x"]


def test_the_digests_of_different_texts_differ(text: ParallelText, tmp_path: Path) -> None:
    first = read_sentences(text, tmp_path, DataConfig(), SentenceConfig()).digest
    assert read_sentences(text, tmp_path, DataConfig(), SentenceConfig()).digest == first
    text.source.write_text(SOURCE.replace("d d d d", "d d d c"))
    assert read_sentences(text, tmp_path, DataConfig(), SentenceConfig()).digest != first


def test_no_line_becomes_a_pair(text: ParallelText, tmp_path: Path) -> None:
    text.source.write_text("\n\n\n\n\n")
    with pytest.raises(UserError, match="contain no usable sentence pairs"):
        read_sentences(text, tmp_path, DataConfig(), SentenceConfig())


@pytest.mark.parametrize("side", ["source", "target"])
def test_the_damaged_side_is_named(tmp_path: Path, side: str) -> None:
    whole = gzip.compress(b"a b\n" * 50_000)
    for name in ("source", "target"):
        (tmp_path / name).write_bytes(whole[:-20] if name == side else whole)
    with pytest.raises(UserError, match=rf"/{side}: the compressed data is truncated or corrupt"):
        read_sentences(ParallelText(tmp_path / "source", tmp_path / "target"), tmp_path, DataConfig(), SentenceConfig())


@pytest.mark.parametrize("longer", ["source", "target"])
def test_a_side_that_ends_between_two_chunks(tmp_path: Path, longer: str) -> None:
    """A side may end at the boundary of a chunk, which has 10,000 lines."""
    for name in ("source", "target"):
        (tmp_path / name).write_bytes(b"a\n" * (20_001 if name == longer else 20_000))
    text = ParallelText(tmp_path / "source", tmp_path / "target")
    shown: list[tuple[float | None, str]] = []
    with pytest.raises(UserError, match=rf"/{longer}: has 20,001 lines but .* has 20,000; give files"):
        read_sentences(text, tmp_path, DataConfig(), SentenceConfig(), progress=lambda *one: shown.append(one))
    assert shown == [(None, "10,000 lines"), (None, "20,000 lines")]


def test_another_encoding_is_a_warning_and_an_error_for_validation(tmp_path: Path) -> None:
    (tmp_path / "source").write_bytes(b"caf\xe9 a\n\xe9t\xe9\n")
    (tmp_path / "target").write_bytes(b"\xef\xbb\xbfx\ny\n")
    text, said = ParallelText(tmp_path / "source", tmp_path / "target"), list[str]()
    data = read_sentences(text, tmp_path, DataConfig(), SentenceConfig(), log=said.append)
    assert sides(data) == (["<unk> a", "<unk>"], ["x", "y"])
    assert [sentence.split(";")[0] for sentence in said] == [
        f"{tmp_path}/source: lines that are not UTF-8: 2, the first is line 1"
    ]
    known = data.source_vocabulary, data.target_vocabulary
    with pytest.raises(UserError, match="source: line 1: is not UTF-8"):
        read_sentences(text, tmp_path, DataConfig(), SentenceConfig(), known)
