"""Affiliations of target words, and windows of source words."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from phrasescore.errors import UserError
from phrasescore.lm.ngrams import Ngrams, affiliations, read_text, source_windows
from phrasescore.parallel_text import ParallelText
from phrasescore.phrases import Phrases
from phrasescore.vocabulary import Vocabulary


@pytest.mark.parametrize(
    ("points", "words", "source_words", "expected"),
    [
        pytest.param([(0, 0), (2, 1), (1, 2)], 3, 3, [0, 2, 1], id="aligned to one word"),
        pytest.param([(3, 0), (1, 0), (0, 0), (3, 0)], 1, 5, [1], id="the middle one of three"),
        pytest.param([(4, 0), (1, 0), (3, 0), (0, 0)], 1, 5, [1], id="of four the lower one of the middle"),
        pytest.param([(1, 0), (3, 2)], 3, 5, [1, 3, 3], id="unaligned: of two neighbours the right one"),
        pytest.param([(1, 0), (3, 4)], 5, 5, [1, 1, 3, 3, 3], id="unaligned: the nearest"),
        pytest.param([(2, 1)], 2, 4, [2, 2], id="before the first aligned word: it is as near as the edge"),
        pytest.param([(2, 2)], 3, 4, [0, 2, 2], id="the left edge is nearer"),
        pytest.param([(1, 0)], 2, 4, [1, 3], id="the right edge is preferred"),
        pytest.param([], 3, 4, [0, 3, 3], id="without points"),
        pytest.param([], 2, 0, [0, 0], id="without source words"),
        pytest.param([], 0, 2, [], id="without words"),
    ],
)
def test_affiliations(points: list[tuple[int, int]], words: int, source_words: int, expected: list[int]) -> None:
    assert affiliations(points, words, source_words) == expected


def test_windows_end_at_sentences() -> None:
    sentences = Phrases.from_lists([[2, 3, 4], [], [5]])
    windows, first = source_windows(sentences, 5)
    per_sentence = [
        windows[start : start + length + 1].tolist() for start, length in zip(first, (3, 0, 1), strict=True)
    ]
    assert per_sentence == [
        [[1, 1, 2, 3, 4], [1, 2, 3, 4, 1], [2, 3, 4, 1, 1], [3, 4, 1, 1, 1]],
        [[1, 1, 1, 1, 1]],
        [[1, 1, 5, 1, 1], [1, 5, 1, 1, 1]],
    ]
    assert len(source_windows(Phrases.from_lists([]), 11)[1]) == 0


def test_n_grams_of_a_joint_model(tmp_path: Path) -> None:
    """Each word follows its source window and its history; the end is affiliated with the end of the source."""
    for name, text in (("s", "a b c\n\nc\n"), ("t", "x y\nx\ny\n"), ("a", "2-0\n\n0-0\n")):
        (tmp_path / name).write_text(text)
    read = read_text(ParallelText(tmp_path / "s", tmp_path / "t", tmp_path / "a"))
    target, source = Vocabulary([b"x", b"y"]), Vocabulary([b"a", b"b", b"c"])
    contexts, words = Ngrams(*read.encode(target, None)[:1], 3, read.encode(target, source)[1], 3).take(np.arange(7))
    b, c, end, x, y = 3, 4, 1, 2, 3
    assert contexts.tolist() == [
        [b, c, end, end, end],
        [b, c, end, end, x],
        [c, end, end, x, y],
        [end, end, end, end, end],
        [end, end, end, end, x],
        [end, c, end, end, end],
        [c, end, end, end, y],
    ]
    assert words.tolist() == [x, y, end, x, end, y, end]


def test_points_outside_the_sentences_are_errors(tmp_path: Path) -> None:
    for name, text in (("s", "a\n"), ("t", "x\n"), ("a", "0-1\n")):
        (tmp_path / name).write_text(text)
    with pytest.raises(UserError, match="a: line 1: the point `0-1` is outside its sentences of 1 and 1 words"):
        read_text(ParallelText(tmp_path / "s", tmp_path / "t", tmp_path / "a"))
