"""Tables equal those of a real Moses, and invalid input is an error."""

from __future__ import annotations

import dataclasses
import gzip
from pathlib import Path

import numpy as np
import pytest

from moses_integration.building import translation_tables
from moses_integration.building.extraction import extract_phrase_pairs
from moses_integration.building.phrase_counts import count_phrase_pairs, phrase_ranks, phrase_table_lines
from moses_integration.building.translation_tables import PHRASE_TABLE, REORDERING_TABLE, TableCounts, build_tables
from phrasescore import aligned_phrases
from phrasescore.errors import UserError
from phrasescore.files import read_bytes
from tests.conftest import MINI, SHARED
from tests.moses_integration.building.corpora import corpus_of


def test_the_mini_tables_are_those_of_moses(tmp_path: Path) -> None:
    counts = build_tables(MINI / "train.en", MINI / "train.fr", MINI / "train.align", tmp_path)
    assert counts == TableCounts(
        sentence_pairs=1000, alignment_points=9327, word_pairs=162, extracted=35407, phrase_pairs=19385
    )
    for name in (PHRASE_TABLE, REORDERING_TABLE):
        assert read_bytes(tmp_path / name) == read_bytes(MINI / name)
    for name in ("lex.e2f", "lex.f2e"):
        # Moses writes these in the order of Perl's hashes.
        assert read_bytes(tmp_path / name).splitlines() == sorted(read_bytes(MINI / name).splitlines())


@pytest.mark.parametrize(("words", "processes"), [(1 << 18, 1), (2000, 1), (2000, 2), (50, 1)])
def test_where_the_work_is_cut_and_who_does_it_changes_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: int, processes: int
) -> None:
    monkeypatch.setattr(aligned_phrases, "_BATCH_CELLS", 10_000)
    monkeypatch.setattr(translation_tables, "_WORDS_A_PARTITION", words)
    texts = MINI / "train.en", MINI / "train.fr", MINI / "train.align"
    assert build_tables(*texts, tmp_path, processes=processes).extracted == 35407
    assert {path.name for path in tmp_path.iterdir()} == {PHRASE_TABLE, REORDERING_TABLE, "lex.e2f", "lex.f2e"}
    for name in (PHRASE_TABLE, REORDERING_TABLE):
        assert read_bytes(tmp_path / name) == read_bytes(MINI / name)


@pytest.mark.slow
def test_the_multi30k_tables_are_those_of_moses(tmp_path: Path) -> None:
    golden, corpus = SHARED / "golden/multi30k-en-fr", SHARED / "data/multi30k"
    if not golden.exists():
        pytest.skip("needs the Multi30k corpus and its golden tables beside the repository")
    source, target = corpus / "train.lc.norm.tok.en.gz", corpus / "train.lc.norm.tok.fr.gz"
    build_tables(source, target, golden / "train.align.gz", tmp_path)
    for name in (PHRASE_TABLE, REORDERING_TABLE):
        ours, theirs = (read_bytes(folder / name).split(b"\n") for folder in (tmp_path, golden))
        differing = [pair for pair in zip(ours, theirs, strict=True) if pair[0] != pair[1]]
        assert not differing, f"{name}: {len(differing)} lines differ, the first: {differing[0]}"


def build(folder: Path, source: bytes, target: bytes, alignment: bytes, longest: int = 7) -> TableCounts:
    for name, content in (("source", source), ("target", target), ("alignment", alignment)):
        (folder / name).write_bytes(content)
    return build_tables(folder / "source", folder / "target", folder / "alignment", folder, longest)


def test_unaligned_words_by_hand(tmp_path: Path) -> None:
    counts = build(tmp_path, b"a b\n\n", b"x  y \nx\n", b"0-0\n\n")
    assert counts == TableCounts(sentence_pairs=2, alignment_points=1, word_pairs=4, extracted=4, phrase_pairs=4)
    # x is aligned to a once and unaligned once; b and y are unaligned.
    assert read_bytes(tmp_path / "lex.f2e") == (
        b"NULL b 1.0000000\nx NULL 0.5000000\nx a 1.0000000\ny NULL 0.5000000\n"
    )
    assert read_bytes(tmp_path / "lex.e2f") == (
        b"NULL x 0.5000000\nNULL y 1.0000000\na x 0.5000000\nb NULL 1.0000000\n"
    )
    assert read_bytes(tmp_path / PHRASE_TABLE).split(b"\n") == [
        b"a b ||| x y ||| 0.5 0.5 0.5 0.5 ||| 0-0 ||| 2 2 1 ||| |||",
        b"a b ||| x ||| 0.5 0.5 0.5 1 ||| 0-0 ||| 2 2 1 ||| |||",
        b"a ||| x y ||| 0.5 0.5 0.5 0.5 ||| 0-0 ||| 2 2 1 ||| |||",
        b"a ||| x ||| 0.5 0.5 0.5 1 ||| 0-0 ||| 2 2 1 ||| |||",
        b"",
    ]
    assert read_bytes(tmp_path / REORDERING_TABLE).split(b"\n") == [
        b"a b ||| x y ||| 0.6 0.2 0.2 0.6 0.2 0.2",
        b"a b ||| x ||| 0.6 0.2 0.2 0.2 0.2 0.6",
        b"a ||| x y ||| 0.6 0.2 0.2 0.2 0.2 0.6",
        b"a ||| x ||| 0.6 0.2 0.2 0.2 0.2 0.6",
        b"",
    ]


def test_each_direction_chooses_among_equally_frequent_alignments(tmp_path: Path) -> None:
    build(tmp_path, b"a b\na b\na\n", b"x y\nx y\nx\n", b"0-0 0-1 1-1\n0-0 1-0 1-1\n0-0\n")
    line = next(line for line in read_bytes(tmp_path / PHRASE_TABLE).split(b"\n") if line.startswith(b"a b ||| x y "))
    # p(x | a) = 3/4, p(x | b) = 1/3, p(y | b) = 2/3. From x and y the second alignment scores higher, from a and b the
    # first: (3/4 + 1/3) / 2 * 2/3 both times. The other choices give 0.34375.
    # seen from a and b the first: (3/4 + 1/3) / 2 * 2/3 both times, where the other ones give 0.34375.
    assert line == b"a b ||| x y ||| 1 0.361111 1 0.361111 ||| 0-0 1-0 1-1 ||| 2 2 2 ||| |||"


def test_the_most_frequent_alignment_is_kept(tmp_path: Path) -> None:
    build(tmp_path, b"a b\n" * 3, b"x y\n" * 3, b"0-0 1-1\n0-1 1-0\n1-1 0-0\n")
    line, *_ = read_bytes(tmp_path / PHRASE_TABLE).split(b"\n")
    assert line == b"a b ||| x y ||| 1 0.444444 1 0.444444 ||| 0-0 1-1 ||| 3 3 3 ||| |||"


def test_a_repeated_point_counts_once(tmp_path: Path) -> None:
    assert build(tmp_path, b"a\n", b"x\n", b" 0-0  0-0 \n").alignment_points == 1


def test_large_counts_lose_digits_between_the_steps_as_in_moses() -> None:
    corpus = corpus_of([(b"a", b"x", b"0-0")])
    instances = extract_phrase_pairs(corpus.aligned, 0, 1)
    pairs = count_phrase_pairs(instances, phrase_ranks(corpus.source, 7), phrase_ranks(corpus.target, 7))
    pairs = dataclasses.replace(pairs, count_K=pairs.count_K * 999_999, source_count_K=pairs.source_count_K * 1_234_567)
    weights = np.ones(1), np.ones(1)
    # 999999 / 1234567 = 0.810000 but 999999 / 1234570 = 0.809998
    assert list(phrase_table_lines(pairs, [b"a ||| x"], np.array([1]), weights)) == [
        b"a ||| x ||| 999999 1 0.809998 1 ||| 0-0 ||| 1 1.23457e+06 999999 ||| |||\n"
    ]


def test_shorter_phrases(tmp_path: Path) -> None:
    build(tmp_path, b"a b c\n", b"x y z\n", b"0-0 1-1 2-2\n", longest=2)
    pairs = [line.split(b" ||| ")[:2] for line in read_bytes(tmp_path / PHRASE_TABLE).splitlines()]
    assert pairs == [[b"a b", b"x y"], [b"a", b"x"], [b"b c", b"y z"], [b"b", b"y"], [b"c", b"z"]]


@pytest.mark.parametrize(
    ("source", "target", "alignment", "message"),
    [
        (b"", b"", b"", "source: is empty; "),
        (b"a\nb\n", b"x\n", b"0-0\n0-0\n", "source: has 2 lines but .*target has 1; "),
        (b"a\n", b"x\ny\n", b"0-0\n", "target: has 2 lines but .*source has 1; "),
        (b"a\n", b"x\n", b"", "source: has 1 line but .*alignment has 0; "),
        (
            b"a\nb\n",
            b"x\ny\n",
            b"0-0\n0-1\n",
            "alignment: line 2: the point `0-1` is outside its sentences of 1 and 1 w",
        ),
        (
            b"a\nb\n",
            b"x\ny\n",
            b"0-0\n7-0\n",
            "alignment: line 2: the point `7-0` is outside its sentences of 1 and 1 w",
        ),
        (b"a\n", b"x\n", b"0-0 0:0\n", "alignment: line 1: `0:0` is not an alignment point; "),
        (b"a\n", b"x\n", b"0-0-0\n", "alignment: line 1: `0-0-0` is not"),
        (b"a\n", b"x\n", b"0-00-0\n", "alignment: line 1: `0-00-0` is not"),
        (b"a\n", b"x\n", b"0\n", "alignment: line 1: `0` is not"),
        (b"a\n", b"x\n", b"-1-0\n", "alignment: line 1: `-1-0` is not"),
        (b"a\n", b"x\n", b"0-9999999999\n", "alignment: line 1: `0-9999999999` is not"),
        (b"a\nb |||\n", b"x\ny\n", b"0-0\n0-0\n", r"source: line 2: .* the word `\|\|\|`; escape"),
        (b"a\n", b"x|NN\n", b"0-0\n", r"target: line 1: .* the word `x\|NN`; escape"),
        (b"a [X]\n", b"x\n", b"0-0\n", r"source: line 1: .* the word `\[X\]`; escape"),
        (b"[] a\n", b"x\n", b"0-0\n", r"source: line 1: .* the word `\[\]`; escape"),
        (b"a\tb\n", b"x\n", b"0-0\n", r"source: line 1: .* the word `a\\tb`; escape"),
        (b"a\n", b"x\n", b"\n", "alignment: yields no phrase pair; "),
    ],
)
def test_bad_input(tmp_path: Path, source: bytes, target: bytes, alignment: bytes, message: str) -> None:
    with pytest.raises(UserError, match=message):
        build(tmp_path, source, target, alignment)
    assert {path.name for path in tmp_path.iterdir()} == {"source", "target", "alignment"}


def test_brackets_inside_words_are_words(tmp_path: Path) -> None:
    assert build(tmp_path, b"[a a]b [ ]\n", b"x[1] [y ]\n", b"0-0\n").phrase_pairs > 0


def test_compressed_input_and_no_last_line_feed(tmp_path: Path) -> None:
    assert build(tmp_path, gzip.compress(b"a\nb"), b"x\r\ny\r\n", gzip.compress(b"0-0\n0-0")).phrase_pairs == 2
    assert read_bytes(tmp_path / PHRASE_TABLE).startswith(b"a ||| x ||| 1 1 1 1 |||")
