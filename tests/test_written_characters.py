"""Characters of several code points stay together when spaces move."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from phrasescore.written_characters import (
    WrittenCharacters,
    clause_ends,
    extending_characters,
    is_of_word,
    unknown_letters,
)

KNOWN = "abcde\u0300"
CHARACTERS = WrittenCharacters(extending_characters(KNOWN), {"𞤀": "e", "।": ","})


def apart(text: str) -> str:
    """Put spaces around everything unknown, as a tokeniser does."""
    return re.sub(" +", " ", re.sub(f"([^{KNOWN} ])", r" \1 ", text)).strip(" ")


@pytest.mark.parametrize(
    ("text", "whole"),
    [
        ("ab, c", "ab , c"),
        ("a\u0301b,\u0301c", "a\u0301b ,\u0301 c"),
        ("a\u0300\u0301b", "a\u0300\u0301b"),
        ("a\u200cb\u00adc", "a\u200cb\u00adc"),
        ("\u200fa \u200f(b\u200f)", "\u200fa \u200f( b\u200f )"),
        ("a \u0301 b", "a \u0301 b"),
        ("a\u200d,", "a\u200d ,"),
        ("👩\u200d👧\u200d👧👍🏽a❤\ufe0f", "👩\u200d👧\u200d👧 👍🏽 a ❤\ufe0f"),
        ("🇫🇷🇩🇪 🇫", "🇫🇷 🇩🇪 🇫"),
        ("a𞤀\u0301b", "a𞤀\u0301b"),
        ("a׳b", "a׳b"),
        ("ab।", "ab ।"),
    ],
)
def test_no_blank_comes_inside_of_a_character(text: str, whole: str) -> None:
    assert CHARACTERS.keep_whole(text, apart) == whole


def test_what_stands_in_is_what_the_program_sees() -> None:
    seen: list[str] = []

    def program(text: str) -> str:
        seen.append(text)
        return text

    assert CHARACTERS.keep_whole("𞤀\u0301b।", program) == "𞤀\u0301b।"
    assert seen == ["eb,"]


def test_a_program_that_changes_more_than_blanks_has_its_way() -> None:
    assert CHARACTERS.keep_whole("a\u0301 @-@ b", lambda text: text.replace(" @-@ ", "-")) == "a\u0301-b"


@given(st.text(st.sampled_from(" ab,-\u0300\u0301\u200c\u200d\u200f👩🏽🇫🇷𞤀।"), max_size=12))
def test_nothing_but_blanks_changes(text: str) -> None:
    whole = CHARACTERS.keep_whole(text, apart)
    assert whole.replace(" ", "") == text.replace(" ", "")
    # A character with a space before it keeps the space.
    assert [word for word in whole.split(" ") if word] == [
        word for piece in text.split(" ") for word in CHARACTERS.keep_whole(piece, apart).split(" ") if word
    ]


def test_kinds_of_characters() -> None:
    """Character kinds follow Unicode: three kinds of marks, format characters, and unknown letters and digits."""
    assert all(map(is_of_word, "\u0301\u0940\u20e3\u200c\u00ad\ufe0f\U000e0067🏽\u05f4"))
    assert not any(map(is_of_word, "a1 ,-।👩"))
    extending = extending_characters(KNOWN)
    assert "\u0301" in extending
    assert "\u0300" not in extending
    letters = unknown_letters(KNOWN, "f".__eq__)
    assert letters["g"] == letters["𞤢"] == "a"
    assert letters["G"] == letters["𞤀"] == letters["ش"] == "ℵ"
    assert letters["7"] == letters["𞥑"] == "0"
    assert not {"a", "f", ",", "²"} & letters.keys()
    assert {*"।။،؟។"} <= {*clause_ends()}
    assert not {*",.…。׳"} & {*clause_ends()}
