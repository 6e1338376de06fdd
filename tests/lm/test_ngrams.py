from __future__ import annotations

import numpy as np

from phrasescore.lm.ngrams import Ngrams, contexts_and_words, distinct_rows
from phrasescore.phrases import Phrases


def test_every_word_and_end_stands_behind_its_context() -> None:
    contexts, words = contexts_and_words(Phrases.from_lists([[5, 6, 7, 8], [], [9]]), order=4)
    assert words.tolist() == [5, 6, 7, 8, 1, 1, 9, 1]
    assert contexts.tolist() == [
        [1, 1, 1],
        [1, 1, 5],
        [1, 5, 6],
        [5, 6, 7],
        [6, 7, 8],
        [1, 1, 1],
        [1, 1, 1],
        [1, 1, 9],
    ]


def test_some_ngrams() -> None:
    ngrams = Ngrams(Phrases.from_lists([[5, 6], [7]]), order=2)
    assert len(ngrams) == 5
    contexts, words = ngrams.take(np.array([4, 1]))
    assert (contexts.tolist(), words.tolist()) == ([[7], [5]], [1, 6])


def test_no_sentences() -> None:
    assert len(Ngrams(Phrases.from_lists([]), order=3)) == 0


def test_distinct_rows() -> None:
    rows = np.array([[1, 2], [3, 4], [1, 2], [2, 1]])
    first, which = distinct_rows(rows)
    assert (rows[first][which] == rows).all()
    assert len(first) == 3
