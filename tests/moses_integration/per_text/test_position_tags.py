"""`strip-tags` removes position tags and nothing else."""

from __future__ import annotations

import pytest

from moses_integration.per_text.position_tags import MARK, require_untagged, strip_tags, tag_word
from phrasescore.errors import UserError
from phrasescore.text import is_text

UNUSUAL_WORDS = [b"dog", b"", b"dog~1~2", b"\xff", b"a", "ﷰ".encode(), b"&#124;", b"1.5", b"[", MARK[:-1]]


@pytest.mark.parametrize("word", UNUSUAL_WORDS)
def test_tags_are_removed(word: bytes) -> None:
    name = tag_word(word, 1203, 45)
    assert name == word + MARK + b"bcad" + MARK + b"ef"
    assert strip_tags(b"a %b %b b\n" % (name, name)) == b"a %b %b b\n" % (word, word)


def test_tags_are_removed_everywhere() -> None:
    a, b = tag_word(b"a", 0, 0), tag_word(b"b", 10, 9)
    entry = b"10 ||| x %b %b  ||| D0= -1 LM0= -2 ||| -3 ||| 0=0 1-2=1-2 ||| 0-0 1-1 \n" % (a, b)
    assert strip_tags(entry) == b"10 ||| x a b  ||| D0= -1 LM0= -2 ||| -3 ||| 0=0 1-2=1-2 ||| 0-0 1-1 \n"
    assert strip_tags(b"UNK%b |0-0|" % a) == b"UNKa |0-0|"


def test_tags_differ_by_position() -> None:
    positions = [(sentence, position) for sentence in (0, 1, 11, 111) for position in (0, 1, 11, 111)]
    assert len({tag_word(b"a", *position) for position in positions}) == len(positions)


def test_other_text_is_unchanged() -> None:
    for line in (b"a b", MARK, b"a" + MARK, b"a" + MARK + b"b", b"a%bk%bb" % (MARK, MARK), b"a%b1%b2" % (MARK, MARK)):
        assert strip_tags(line) == line


def test_no_reader_splits_tagged_words() -> None:
    name = tag_word("été".encode(), 12, 3)
    assert is_text(name)
    assert name.decode().split() == [name.decode()] == name.decode().splitlines()
    assert not set(tag_word(b"", 0, 12)) & set(b"0123456789|<>[]")


def test_the_mark_in_a_text_is_an_error() -> None:
    require_untagged(UNUSUAL_WORDS, "text")
    with pytest.raises(UserError, match=r"^text: line 2: has U\+FDD0, which is no character of text .*; remove it"):
        require_untagged([b"a", b"b c" + MARK, b"d"], "text")
