from __future__ import annotations

import math
import re
import sys

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from phrasescore.words import join_words, moses_number, parse_number, phrases_of, quote, split_words, to_float32


@pytest.mark.parametrize(
    ("line", "words"),
    [
        (b"", []),
        (b" \t ", []),
        (b"a b", [b"a", b"b"]),
        (b" a  b\tc\t", [b"a", b"b", b"c"]),
        ("a\u00a0b\u2028c\v d\r".encode(), ["a\u00a0b\u2028c\v".encode(), b"d\r"]),
    ],
)
def test_words_are_what_spaces_and_tabs_separate(line: bytes, words: list[bytes]) -> None:
    assert split_words(line) == words
    assert join_words(line) == b" ".join(words)


def test_phrases_are_runs_of_words() -> None:
    assert list(phrases_of([b"a", b"b", b"c"], 2)) == [b"a", b"a b", b"b", b"b c", b"c"]
    assert list(phrases_of([b"a", b"b"], 9)) == [b"a", b"a b", b"b"]
    assert list(phrases_of([], 2)) == []


def test_quotes_are_printable_and_short() -> None:
    assert quote(b"\xff\x00") == r"\\xff\x00"
    assert quote("\u00e9t\u00e9".encode()) == "\u00e9t\u00e9"
    assert len(quote(b"x" * 100)) == 40
    assert len(quote("\U0001f600".encode() * 100)) == 40


@pytest.mark.parametrize("text", ["1", "-0.5", "+1e-3", ".5", "5.", "0" * 400 + "7", b"1E2"])
def test_finite_numbers(text: str | bytes) -> None:
    assert parse_number(text) == float(text)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "x",
        "nan",
        "inf",
        "-inf",
        "Infinity",
        "1e400",
        "9" * 400,
        "1_0",
        "0x1",
        "0,5",
        " 1",
        "1\n",
        "\u0663",
        "\udcff",
    ],
)
def test_numbers_that_are_not_finite(text: str) -> None:
    with pytest.raises(ValueError, match=r"is no finite number$"):
        parse_number(text)


def test_moses_has_32_bits() -> None:
    assert moses_number(b"0.1") == np.float32(0.1)
    assert moses_number(b"1e39") == moses_number(b"inf") == math.inf
    assert moses_number(b"-1e39") == -math.inf
    assert math.copysign(1, moses_number(b"-1e-50")) == -1
    with pytest.raises(ValueError, match="`nan` is no number"):
        moses_number(b"nan")


@given(st.text(st.sampled_from("0123456789.eE+-_xinfa \t\u0663"), max_size=8))
def test_what_moses_takes_python_takes_too(text: str) -> None:
    try:
        number = moses_number(text.encode())
    except ValueError:
        return
    assert number == to_float32([float(text)])[0] or sys.float_info.max < abs(float(text))
    assert not re.search(r"[_x\s\u0663]|nan", text)
