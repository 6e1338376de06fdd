"""Scoring phrase pairs given as Python objects."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas
import pytest

from phrasescore.errors import UserError
from phrasescore.scoring.occurrences import clean_pairs, clean_phrases


def test_words_have_one_space_between_them() -> None:
    assert list(clean_pairs([(" the  dog", b"le\tchien ")])) == [(b"the dog", b"le chien")]
    place: Any = np.array([0, 2])
    assert list(clean_phrases([("  the  dog ", place, " le  chien")])) == [(b"the dog", (0, 2), b"le chien")]


def test_phrases_in_sentences_may_be_a_frame() -> None:
    rows = [("the  dog", 0, 1, "le"), ("a cat", 1, 2, b"chat")]
    frame = pandas.DataFrame(rows, columns=["sentence", "start", "end", "target"], index=[5, 2])
    assert list(clean_phrases(frame)) == [(b"the dog", (0, 1), b"le"), (b"a cat", (1, 2), b"chat")]
    with pytest.raises(TypeError, match=r"phrases: have no column `end`; give a table with `sentence`, `start`, `end`"):
        list(clean_phrases(frame.drop(columns="end")))
    with pytest.raises(TypeError, match=r"phrases: are of type str; give a list of phrases"):
        list(clean_phrases("the dog"))  # type: ignore[arg-type]


@pytest.mark.parametrize("kind", [np.str_, np.bytes_, object])
def test_an_array_has_a_pair_in_each_row(kind: type[Any]) -> None:
    """Each row of an array is a pair, as in `df[["source", "target"]].values`."""
    pairs = [("the  dog", "le chien"), ("a", "")]
    array = np.array([[text.encode() if kind is np.bytes_ else text for text in pair] for pair in pairs], dtype=kind)
    assert list(clean_pairs(array)) == [(b"the dog", b"le chien"), (b"a", b"")]
    assert list(clean_pairs(list(array))) == [(b"the dog", b"le chien"), (b"a", b"")]


@pytest.mark.parametrize("array", [["the", "le"], [["the", "le", "un"]], [[1, 2]], [[["the"], ["le"]]]])
def test_an_array_of_other_things_is_rejected(array: Any) -> None:
    with pytest.raises(TypeError, match="pair"):
        list(clean_pairs(np.array(array)))


@pytest.mark.parametrize(
    ("pair", "message"),
    [
        (("", "le"), "pair 1, source: has no words; give a phrase"),
        (("the", "chien\n"), "pair 1, target: has a line end, which no word has; strip it"),
        (("the \ud800", "le"), "pair 1, source: has half of a surrogate pair"),
        (("the", "le " * 1001), "pair 1, target: has more than 1,000 words"),
    ],
)
def test_texts_that_cannot_be_phrases_are_rejected(pair: tuple[str, str], message: str) -> None:
    with pytest.raises(UserError) as error:
        list(clean_pairs([pair]))
    assert str(error.value).startswith(message)


@pytest.mark.parametrize(
    ("phrase", "kind", "message"),
    [
        (("a", (0.0, 1.0), "le"), TypeError, "phrase 1: is ('a', (0.0, 1.0), 'le'); give (sentence, (first, end), tra"),
        (((0, 1), "le"), TypeError, "phrase 1: is ((0, 1), 'le'); give (sentence, (first, end), translation)"),
        (("a", (0, 1), 3), TypeError, "phrase 1: is ('a', (0, 1), 3); give sentence and translation as str or bytes"),
        ((3, (0, 1), "le"), TypeError, "phrase 1: is (3, (0, 1), 'le'); give sentence and translation as str"),
        (("a b", (0, 3), "le"), UserError, "phrase 1: words 0 to 3 are no phrase of a sentence of 2 words"),
        (("a b", (1, 1), "le"), UserError, "phrase 1: words 1 to 1 are no phrase of a sentence of 2 words"),
        (("a b", (0, 1), "le\n"), UserError, "phrase 1, target: has a line end"),
        ((b"the\ndog", (0, 1), "le"), UserError, "phrase 1, sentence: has a line end"),
    ],
)
def test_positions_outside_the_sentence_are_rejected(phrase: Any, kind: type[Exception], message: str) -> None:
    with pytest.raises(kind) as error:
        list(clean_phrases([phrase]))
    assert str(error.value).startswith(message)


def test_a_sentence_may_be_longer_than_a_phrase() -> None:
    [(sentence, _, _)] = clean_phrases([("the " * 20_000, (0, 1), "le")])
    assert sentence == b" ".join([b"the"] * 20_000)
