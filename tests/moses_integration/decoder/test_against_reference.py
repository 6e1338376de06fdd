"""The search finds the same derivations and scores as exhaustive enumeration."""

from __future__ import annotations

import random
from collections import defaultdict
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from moses_integration.decoder.phrases import Words
from moses_integration.decoder.search import _row_numbers
from tests.moses_integration.decoder import reference
from tests.moses_integration.decoder.searching import (
    NARROW,
    TOLERANCE,
    UNLIMITED,
    WEIGHTS,
    check_values,
    decode,
    key,
    scored,
)
from tests.moses_integration.decoder.small_system import Line, Reordering, SmallSystem, random_system


@settings(max_examples=60)
@given(st.integers(0, 2**32))
def test_without_limits_the_list_is_that_of_all_derivations(language_models: list[Path], seed: int) -> None:
    system, sentence = random_system(random.Random(seed), language_models)
    system = replace(system, settings=UNLIMITED)
    expected = scored(system, sentence)
    model, found = decode(system, sentence)
    best = found.best()
    assert best is not None
    assert best.score == pytest.approx(expected[0][0], abs=TOLERANCE)
    listed = found.n_best(len(expected) + 1, distinct=False)
    assert sorted(map(key, listed), key=repr) == sorted((one for _, one in expected), key=repr)
    assert [one.score for one in listed] == pytest.approx([score for score, _ in expected], abs=TOLERANCE)
    assert (np.diff([one.score for one in listed]) <= 1e-9).all()
    check_values(system, sentence, model, [best, *listed[:50]])


@settings(max_examples=30)
@given(st.integers(0, 2**32))
def test_a_distinct_list_has_the_best_of_each_translation(language_models: list[Path], seed: int) -> None:
    system, sentence = random_system(random.Random(seed), language_models)
    system = replace(system, settings=UNLIMITED)
    best: dict[Words, float] = defaultdict(lambda: -np.inf)
    for score, derivation in scored(system, sentence):
        words = tuple(word for phrase in derivation for word in phrase.words)
        best[words] = max(best[words], score)
    listed = decode(system, sentence)[1].n_best(10_000, distinct=True)
    assert {one.words: one.score for one in listed} == pytest.approx(dict(best), abs=TOLERANCE)
    assert len(listed) == len(best)


@settings(max_examples=30)
@given(st.integers(0, 2**32))
def test_a_narrow_search_finds_derivations_that_exist(language_models: list[Path], seed: int) -> None:
    system, sentence = random_system(random.Random(seed), language_models)
    system = replace(system, settings=NARROW)
    allowed = set(reference.all_derivations(system, sentence))
    model, found = decode(system, sentence)
    listed = found.n_best(1000, distinct=False)
    assert {key(one) for one in listed} <= allowed
    check_values(system, sentence, model, listed[:20])
    best = found.best()
    assert (best is None) == (not listed)
    if best:
        assert best.score == pytest.approx(listed[0].score, abs=1e-9)


def test_hypotheses_with_another_last_phrase_are_not_recombined() -> None:
    """Hypotheses with different last phrases do not recombine.

    `a` is a swap after `b c`, but not after `b`, `c`, which scores better until then.
    """
    lines = [Line((b"b", b"c"), (b"B",), (0.1,)), *(Line((word,), (b"B",), (0.9,)) for word in (b"a", b"b", b"c"))]
    rows: dict[tuple[Words, Words], tuple[float, ...]]
    rows = {((b"a",), (b"B",)): (0.001, 1.0, 0.001), ((b"c",), (b"B",)): (1.0, 0.001, 0.001)}
    weights = {**WEIGHTS, "W": [0.0], "P": [0.0], "D": [0.0], "R0": [1.0] * 3}
    system = SmallSystem(lines, weights, [Reordering("wbe-msd-backward-fe", rows)], settings=UNLIMITED)
    sentence = (b"a", b"b", b"c")
    expected = scored(system, sentence)
    assert [(phrase.start, phrase.end) for phrase in expected[0][1]] == [(1, 2), (0, 0)]
    listed = decode(system, sentence)[1].n_best(100, distinct=False)
    assert [one.score for one in listed] == pytest.approx([score for score, _ in expected])


def test_states_are_numbered_without_overflow() -> None:
    largest = 2**32 - 1
    columns = [np.array([0, 1, 1, 0]), np.array([5, 5, 5, largest]), np.array([7, 7, 7, largest])]
    number_N = _row_numbers(columns)
    assert number_N[1] == number_N[2]
    assert len(set(number_N.tolist())) == 3


def test_the_table_limit_ranks_by_weighted_score_and_language_model(language_models: list[Path]) -> None:
    """The table limit ranks by weighted score and language model.

    The language model lacks the word `new`, which the table prefers.
    """
    lines = [Line((b"a",), (b"new",), (0.5,)), Line((b"a",), (b"A",), (0.4,)), Line((b"a",), (b"B", b"B"), (0.45,))]
    for weight, expected in ((0.0, (b"B", b"B")), (1.0, (b"A",))):
        weights = {**WEIGHTS, "L0": [weight]}
        system = SmallSystem(lines, weights, language_models=language_models[:1], table_limit=1, settings=UNLIMITED)
        listed = decode(system, (b"a",))[1].n_best(10, distinct=False)
        assert [one.words for one in listed] == [expected]


def test_equal_lines_are_two_options() -> None:
    lines = [Line((b"a",), (b"A",), (0.5,)), Line((b"a",), (b"A",), (0.5,)), Line((b"a",), (b"B",), (0.1,))]
    listed = decode(SmallSystem(lines, WEIGHTS, settings=UNLIMITED), (b"a",))[1]
    assert [one.words for one in listed.n_best(10, distinct=False)] == [(b"A",), (b"A",), (b"B",)]
    assert [one.words for one in listed.n_best(10, distinct=True)] == [(b"A",), (b"B",)]
    # Two duplicate lines fill a limit of two.
    limited = decode(SmallSystem(lines, WEIGHTS, table_limit=2, settings=UNLIMITED), (b"a",))[1]
    assert [one.words for one in limited.n_best(10, distinct=False)] == [(b"A",), (b"A",)]


@pytest.mark.parametrize(
    ("drop", "expected"), [(False, (b"zz", b"A", b"z9")), (True, (b"A", b"z9"))], ids=["copied", "dropped"]
)
def test_unknown_words(drop: bool, expected: Words) -> None:
    """A word with a digit is always copied; a longer phrase that contains a word does not make it a known word."""
    lines = [Line((b"a",), (b"A",), (0.5,)), Line((b"zz", b"b"), (b"B",), (1.0,))]
    system = SmallSystem(lines, WEIGHTS, drop_unknown=drop, distortion_limit=0, settings=UNLIMITED)
    model, found = decode(system, (b"zz", b"a", b"z9"))
    best = found.best()
    assert best is not None
    assert best.words == expected
    values = {label: best.values_F[columns].tolist() for label, columns in model.columns.items()}
    assert values == {"U": [-200], "W": [-len(expected)], "P": [3], "T": pytest.approx([np.log(0.5)]), "D": [0]}
    assert best.score == pytest.approx(-200 + len(expected) + 0.6 + 0.5 * np.log(0.5))


def test_an_empty_sentence_is_translated_as_nothing(language_models: list[Path]) -> None:
    found = decode(SmallSystem([], {**WEIGHTS, "L0": [1.0]}, language_models=language_models[:1]), ())[1]
    best = found.best()
    assert best is not None
    assert (best.words, best.steps, best.score) == ((), (), 0.0)
    assert [(one.words, one.score) for one in found.n_best(5, distinct=True)] == [((), 0.0)]


def test_sentences_longer_than_a_machine_word(language_models: list[Path]) -> None:
    """The search handles sentences longer than a machine word.

    There are 130 words, and `a b` is best translated in reverse order, which the language model prefers.
    """
    lines = [Line((b"a",), (b"B",), (0.5,)), Line((b"b",), (b"A",), (0.5,)), Line((b"c",), (b"D",), (1.0,))]
    weights = {**WEIGHTS, "D": [0.01], "L0": [1.0]}
    system = SmallSystem(lines, weights, language_models=language_models[1:], distortion_limit=4)
    sentence = (b"a", b"b", b"c", b"c", b"a") * 26
    model, found = decode(system, sentence)
    listed = found.n_best(20, distinct=False)
    assert len(listed) == 20
    for one in listed:
        assert sorted(step.start for step in one.steps) == list(range(130))
        jumps = np.diff([-1, *(step.start for step in one.steps)]) - 1
        assert 0 < np.abs(jumps).max() <= 4
    check_values(system, sentence, model, listed)


def test_words_of_a_phrase_may_be_unknown_alone() -> None:
    lines = [Line((b"a", b"b"), (b"A",), (0.5,))]
    found = decode(SmallSystem(lines, WEIGHTS, settings=UNLIMITED), (b"a", b"b"))[1]
    assert [one.words for one in found.n_best(3, distinct=True)] == [(b"A",), (b"a", b"b"), (b"b", b"a")]
