"""Tokenisation and detokenisation are inverse, tested over the scripts of Unicode."""

from __future__ import annotations

import re
import unicodedata
from collections import defaultdict

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sacremoses.util import is_cjk

from phrasescore.tokenisation import _keep_whole, detokenise, tokenise

LANGUAGES = ("en", "fr", "cs", "fa", "my", "km", "si", "vi", "hi")
JOINERS = "\u200c\u200d\u2060\u00ad\u200e\u200f\u0301\u0323\u034f\ufe0f"
EMOJI = (
    "👩\u200d👩\u200d👧",
    "👍🏽",
    "❤\ufe0f",
    "🇫🇷",
    "1\ufe0f\u20e3",
    "🏳\ufe0f\u200d🌈",
    "🏴\U000e0067\U000e0062\U000e007f",
    "👩",
)


def _scripts() -> dict[str, tuple[str, str]]:
    """Return letters and marks of each script, named by the first word of their Unicode names."""
    letters, marks = defaultdict[str, str](str), defaultdict[str, str](str)
    for character in map(chr, range(0x20000)):
        script = unicodedata.name(character, "").split(" ")[0]
        category = unicodedata.category(character)
        # Chinese and similar characters are words by themselves, joined without spaces.
        if category[0] == "L" and not is_cjk(character):
            letters[script] += character
        elif category[0] == "M":
            marks[script] += character
    return {script: (some, marks[script]) for script, some in letters.items()}


SCRIPTS = _scripts()
INSIDE_WORDS = "՚՛՜՞՟־׳״٫٬"
ENDS = [
    character
    for character in map(chr, (*range(0x37E, 0x2000), *range(0xA000, 0xFE00), *range(0x10000, 0x20000)))
    if unicodedata.category(character) == "Po" and character not in INSIDE_WORDS
]
"""Punctuation of scripts other than Latin and Chinese that ends a clause."""


@st.composite
def words(draw: st.DrawFn, script: str) -> str:
    letters, marks = SCRIPTS[script]
    letter, extending = st.sampled_from(letters), st.text(st.sampled_from(marks + JOINERS), max_size=2)
    syllables = draw(st.lists(st.tuples(letter, extending), min_size=1, max_size=4))
    return draw(st.sampled_from(["", "", "\u200f"])) + "".join(base + rest for base, rest in syllables)


@st.composite
def sentences(draw: st.DrawFn) -> str:
    """Draw a sentence of one script with digits, punctuation and emoji between the words."""
    word = words(draw(st.sampled_from([*SCRIPTS])))
    end = st.one_of(st.sampled_from(",.।။،؛។"), st.sampled_from(ENDS))
    piece = st.one_of(
        word,
        st.builds("{}{}".format, word, end),
        st.builds("({})".format, word),
        st.builds("{}-{}".format, word, word),
        st.sampled_from(["12", "5,300", "3.5", "۱۲٫۵", "𞥑𞥒", *EMOJI]),
    )
    return " ".join(draw(st.lists(piece, min_size=1, max_size=6)))


@settings(max_examples=200)
@given(language=st.sampled_from(LANGUAGES), text=sentences())
def test_plain_text_comes_back(language: str, text: str) -> None:
    (tokens,) = tokenise([text], language)
    assert next(detokenise([tokens], language)) == text


@pytest.mark.parametrize(
    ("text", "tokens"),
    [
        ("un cafe\u0301, sʼil", "un cafe\u0301 , sʼil"),
        ("می\u200cخواهم به خانه بروم، نه؟", "می\u200cخواهم به خانه بروم ، نه ؟"),
        ("မြန်မာနိုင်ငံသည် ရှိသည်။", "မြန်မာနိုင်ငံသည် ရှိသည် ။"),
        ("ភាសាខ្មែរ គឺជា ភាសា។", "ភាសាខ្មែរ គឺជា ភាសា ។"),
        ("ශ්\u200dරී ලංකාව (ලංකා)", "ශ්\u200dරී ලංකාව ( ලංකා )"),
        ("Tie\u0302\u0301ng Vie\u0323\u0302t.", "Tie\u0302\u0301ng Vie\u0323\u0302t ."),
        ("क़लम, हिन्दी में।", "क़लम , हिन्दी में ।"),
        ("בְּרֵאשִׁית צה״ל, בית־ספר", "בְּרֵאשִׁית צה״ל , בית־ספר"),
        ("السَّلَامُ، ١٢٫٥٪", "السَّلَامُ ، ١٢٫٥ ٪"),
        ("ինչո՞ւ", "ինչո՞ւ"),
        ("co\u00adoperate 👩\u200d👩\u200d👧, 👍🏽", "co\u00adoperate 👩\u200d👩\u200d👧 , 👍🏽"),
    ],
)
def test_marks_and_joiners_stay_with_their_letters(text: str, tokens: str) -> None:
    assert tokenise([text], "en") == [tokens]
    assert [*detokenise([tokens], "en")] == [text]


def test_the_form_of_a_text_is_kept() -> None:
    """Tokenisation preserves the Unicode normalisation form."""
    assert tokenise(["café", "cafe\u0301"], "fr") == ["café", "cafe\u0301"]


def test_an_abbreviation_with_marks_is_still_known() -> None:
    assert tokenise(["திரு. பணம்\u200c."], "ta") == ["திரு. பணம்\u200c ."]


def apart(text: str) -> str:
    """Put spaces around everything but some letters, as a tokeniser does."""
    return re.sub(" +", " ", re.sub("([^abcde\u0300 ])", r" \1 ", text)).strip(" ")


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
def test_no_space_comes_inside_of_a_character(text: str, whole: str) -> None:
    assert _keep_whole(text, apart, lambda one: {"𞤀": "e", "।": ","}.get(one, one)) == whole


def test_a_program_that_changes_more_than_spaces_gets_the_text() -> None:
    assert _keep_whole("a\u0301 @-@ b", lambda text: text.replace(" @-@ ", "-"), str) == "a\u0301-b"


@given(st.text(st.sampled_from(" ab,-\u0300\u0301\u200c\u200d\u200f👩🏽🇫🇷𞤀।"), max_size=12))
def test_nothing_but_spaces_changes(text: str) -> None:
    whole = _keep_whole(text, apart, str)
    assert whole.replace(" ", "") == text.replace(" ", "")
    # A character with a space before it keeps the space.
    assert [word for word in whole.split(" ") if word] == [
        word for piece in text.split(" ") for word in _keep_whole(piece, apart, str).split(" ") if word
    ]
