"""What a program gives to be scored."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from phrasescore.errors import UserError
from phrasescore.scoring.given_pairs import clean_pairs, clean_places, clean_sentence


def test_words_have_one_blank_between_them() -> None:
    assert list(clean_pairs([(" the  dog", b"le\tchien ")])) == [(b"the dog", b"le chien")]
    assert clean_sentence("  the  dog ") == b"the dog"
    place: Any = np.array([0, 2])
    assert list(clean_places([(place, " le  chien")], 2)) == [((0, 2), b"le chien")]


@pytest.mark.parametrize("kind", [np.str_, np.bytes_, object])
def test_an_array_has_a_pair_in_each_row(kind: type[Any]) -> None:
    """As `df[["source", "target"]].values` is."""
    pairs = [("the  dog", "le chien"), ("a", "")]
    array = np.array([[text.encode() if kind is np.bytes_ else text for text in pair] for pair in pairs], dtype=kind)
    assert list(clean_pairs(array)) == [(b"the dog", b"le chien"), (b"a", b"")]
    assert list(clean_pairs(list(array))) == [(b"the dog", b"le chien"), (b"a", b"")]


@pytest.mark.parametrize("array", [["the", "le"], [["the", "le", "un"]], [[1, 2]], [[["the"], ["le"]]]])
def test_an_array_of_other_things_is_refused(array: Any) -> None:
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
def test_texts_that_cannot_be_phrases_are_refused(pair: tuple[str, str], message: str) -> None:
    with pytest.raises(UserError) as error:
        list(clean_pairs([pair]))
    assert str(error.value).startswith(message)


@pytest.mark.parametrize(
    ("phrase", "kind", "message"),
    [
        (((0.0, 1.0), "le"), TypeError, "phrase 1: is ((0.0, 1.0), 'le'); give ((first, end), translation)"),
        (("le", (0, 1)), TypeError, "phrase 1: is ('le', (0, 1)); give ((first, end), translation)"),
        (((0, 1), 3), TypeError, "phrase 1: is translated by 3; give str or bytes"),
        (((0, 3), "le"), UserError, "phrase 1: words 0 to 3 are no phrase of a sentence of 2 words"),
        (((1, 1), "le"), UserError, "phrase 1: words 1 to 1 are no phrase of a sentence of 2 words"),
        (((0, 1), "le\n"), UserError, "phrase 1, target: has a line end"),
    ],
)
def test_what_is_no_phrase_of_a_sentence_is_refused(phrase: Any, kind: type[Exception], message: str) -> None:
    with pytest.raises(kind) as error:
        list(clean_places([phrase], 2))
    assert str(error.value).startswith(message)


def test_a_sentence_may_be_longer_than_a_phrase() -> None:
    assert clean_sentence("the " * 20_000) == b" ".join([b"the"] * 20_000)
    with pytest.raises(TypeError, match="sentence: is 3; give str or bytes"):
        clean_sentence(3)  # type: ignore[arg-type]
    with pytest.raises(UserError, match="sentence: has a line end"):
        clean_sentence(b"the\ndog")
