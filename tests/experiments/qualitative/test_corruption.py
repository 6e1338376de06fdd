from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from experiments.qualitative.corruption import misaligned, shuffled, with_wrong_word
from experiments.qualitative.loaded_table import load_table
from phrasescore.table.reader import TableReader
from phrasescore.vocabulary import Vocabulary
from tests.conftest import MINI

VOCABULARY = Vocabulary(b"w%d" % rank for rank in range(500))
words = st.lists(st.sampled_from(VOCABULARY.words[2:]), min_size=1, max_size=5)


@given(words, st.integers(0, 99))
def test_shuffling_keeps_the_words_and_changes_the_order(some: list[bytes], seed: int) -> None:
    phrase = b" ".join(some)
    other = shuffled(phrase, np.random.default_rng(seed))
    if len(set(some)) == 1:
        assert other is None
    else:
        assert other != phrase
        assert sorted(other.split(b" ")) == sorted(some) if other else False


@given(words, st.integers(0, 99))
def test_a_wrong_word_is_another_of_similar_frequency(some: list[bytes], seed: int) -> None:
    other = with_wrong_word(b" ".join(some), VOCABULARY, np.random.default_rng(seed))
    assert other is not None
    [(old, new)] = [(a, b) for a, b in zip(some, other.split(b" "), strict=True) if a != b]
    assert new in VOCABULARY
    assert abs(VOCABULARY.words.index(old) - VOCABULARY.words.index(new)) <= 100


def test_every_neighbour_may_come() -> None:
    random = np.random.default_rng(1)
    found = {with_wrong_word(b"w250", VOCABULARY, random) for _ in range(3000)}
    assert found == {b"w%d" % rank for rank in range(200, 301)} - {b"w250"}


def test_nothing_to_replace() -> None:
    random = np.random.default_rng(1)
    assert with_wrong_word(b"xyz", VOCABULARY, random) is None
    assert with_wrong_word(b"a", Vocabulary([b"a"]), random) is None
    assert with_wrong_word(b"a", Vocabulary([b"a", b"b"]), random) == b"b"


def test_misaligned_outputs_are_of_other_inputs_and_as_long() -> None:
    table = load_table(TableReader(MINI / "phrase-table.gz"))
    pairs = list(range(0, len(table.outputs), 100))
    found = misaligned(table, pairs, np.random.default_rng(1))
    assert sum(other is not None for other in found) > 0.9 * len(pairs)
    for pair, other in zip(pairs, found, strict=True):
        if other is not None:
            assert other.count(b" ") == table.outputs[pair].count(b" ")
            assert other not in [table.outputs[i] for i in table.pairs_of(int(table.input_of_pair_P[pair]))]
