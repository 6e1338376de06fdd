from __future__ import annotations

from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from phrasescore.errors import UserError
from phrasescore.lm.ngrams import Ngrams, distinct_rows, read_text
from phrasescore.phrases import Phrases
from phrasescore.vocabulary import Vocabulary
from phrasescore.words import split_words

WORDS = st.sampled_from([b"a", b"b", b"<unk>", b"<eos>", b"\xff", "\u2028".encode(), b"\tc"])
LINES = st.lists(st.lists(WORDS, max_size=4).map(b"  ".join), min_size=1, max_size=6)


def test_every_word_and_end_follows_its_context() -> None:
    contexts, words = Ngrams(Phrases.from_lists([[5, 6, 7, 8], [], [9]]), order=4).take(np.arange(8))
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


@settings(max_examples=50, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(LINES)
def test_a_text_has_the_words_and_sentences_of_its_lines(tmp_path: Path, lines: list[bytes]) -> None:
    path = tmp_path / "text"
    path.write_bytes(b"".join(line + b"\n" for line in [b"a", *lines]))
    text = read_text(path).target
    words = [split_words(line) for line in [b"a", *lines]]
    assert text.counts() == Counter(word for some in words for word in some)
    for vocabulary in (Vocabulary([]), Vocabulary([b"b", b"a"])):
        expected = vocabulary.encode([b" ".join(some) for some in words])
        found = text.encode(vocabulary)
        assert (found.ids.tolist(), found.offsets.tolist()) == (expected.ids.tolist(), expected.offsets.tolist())


def test_a_text_without_words_is_rejected(tmp_path: Path) -> None:
    (tmp_path / "text").write_text("\n  \n")
    with pytest.raises(UserError, match="text: has no words; give a tokenised text"):
        read_text(tmp_path / "text")
