"""Occurrences of phrase pairs match their definition."""

from __future__ import annotations

from itertools import pairwise, product
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from phrasescore.aligned_phrases import LONGEST, extract_phrases
from phrasescore.errors import UserError
from phrasescore.pairs import DataConfig, PhrasePairs
from phrasescore.parallel_text import ParallelText, SentenceConfig, read_sentences
from phrasescore.phrases import Phrases, PhrasesInSentences

Alignment = tuple[int, int, set[tuple[int, int]]]
"""Lengths of a source sentence and its translation, and the alignment points."""


@st.composite
def alignments(draw: st.DrawFn) -> Alignment:
    source, target = draw(st.integers(1, 9)), draw(st.integers(1, 9))
    point = st.tuples(st.integers(0, source - 1), st.integers(0, target - 1))
    return source, target, draw(st.sets(point, max_size=9))


def occurring(alignment: Alignment) -> set[tuple[int, int, int, int]]:
    """Return the source and target ranges of each pair, by definition."""
    source, target, points = alignment
    spans = ([(a, b) for a in range(n) for b in range(a + 1, min(a + LONGEST, n) + 1)] for n in (source, target))
    found = set()
    for (a, b), (c, d) in product(*spans):
        inside = [a <= i < b and c <= j < d for i, j in points]
        touching = [a <= i < b or c <= j < d for i, j in points]
        if any(inside) and inside == touching:
            found.add((a, b, c, d))
    return found


@given(st.lists(alignments(), min_size=1, max_size=4))
def test_occurrences_equal_the_definition(texts: list[Alignment]) -> None:
    source = Phrases.from_lists(range(words) for words, _, _ in texts)
    target = Phrases.from_lists(range(words) for _, words, _ in texts)
    points = Phrases.from_lists([word for point in sorted(points) for word in point] for *_, points in texts)
    found = extract_phrases(PhrasePairs(source, target, points))
    assert found.source.sentence_S.tolist() == found.target.sentence_S.tolist() == sorted(found.source.sentence_S)
    for number, text in enumerate(texts):
        here = found.take(np.flatnonzero(found.source.sentence_S == number))
        rows = (side.tolist() for one in (here.source, here.target) for side in (one.first_S, one.end_S))
        pairs = list(zip(*rows, strict=True))
        assert sorted(pairs) == sorted(occurring(text))
        # Words are numbered by position, so a phrase identifies its position.
        assert lists(here.target.alone()) == [list(range(c, d)) for *_, c, d in pairs]


def lists(phrases: Phrases) -> list[list[int]]:
    return [phrases.ids[a:b].tolist() for a, b in pairwise(phrases.offsets)]


def test_take_keeps_the_sentences() -> None:
    sentences = Phrases.from_lists([[5, 6, 7], [8, 9], [4]])
    phrases = PhrasesInSentences(sentences, np.array([0, 0, 1, 2]), np.array([0, 1, 0, 0]), np.array([2, 3, 1, 1]))
    some = phrases.take(np.array([3, 1]))
    assert lists(some.sentences) == [[5, 6, 7], [4]]
    assert some.sentence_S.tolist() == [1, 0]
    assert lists(some.alone()) == [[4], [6, 7]]
    assert phrases.lengths.tolist() == [2, 2, 1, 1]
    assert phrases.read_with.tolist() == [3, 0, 2, 1]


@pytest.fixture
def text(tmp_path: Path) -> ParallelText:
    (tmp_path / "source").write_text("a  b\n\nb c c\nd\n")
    (tmp_path / "target").write_text("x y\nx\nz\nx\n")
    (tmp_path / "points").write_text("1-0 0-1 1-0\n\n2-0\n\n")
    return ParallelText(tmp_path / "source", tmp_path / "target", tmp_path / "points")


def test_an_alignment_is_read_with_its_text(text: ParallelText, tmp_path: Path) -> None:
    """An alignment is read with its text: pairs with an empty side are skipped, duplicate points count once."""
    data = read_sentences(text, tmp_path, DataConfig(), SentenceConfig())
    assert data.pairs.alignment is not None
    assert lists(data.pairs.alignment) == [[0, 1, 1, 0], [2, 0], []]
    without = read_sentences(ParallelText(text.source, text.target), tmp_path, DataConfig(), SentenceConfig())
    assert without.pairs.alignment is None
    assert without.digest != data.digest


@pytest.mark.parametrize(
    ("points", "message"),
    [
        ("0-0\n\n3-0\n\n", "line 3: the point `3-0` is outside its sentences of 3 and 1 words"),
        ("0-2\n\n\n\n", "line 1: the point `0-2` is outside"),
        ("0-0\n\n0:0\n\n", "line 3: `0:0` is not an alignment point"),
        ("0-0\n", r"source: has 4 lines but .*points has 1;"),
    ],
)
def test_invalid_alignments_are_errors(text: ParallelText, tmp_path: Path, points: str, message: str) -> None:
    (tmp_path / "points").write_text(points)
    with pytest.raises(UserError, match=message):
        read_sentences(text, tmp_path, DataConfig(), SentenceConfig())
