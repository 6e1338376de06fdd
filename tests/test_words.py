from __future__ import annotations

import pytest

from phrasescore.words import join_words, phrases_of, quote, split_words


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
def test_words_are_what_blanks_and_tabs_separate(line: bytes, words: list[bytes]) -> None:
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
