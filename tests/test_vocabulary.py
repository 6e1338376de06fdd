from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from phrasescore.errors import UserError
from phrasescore.vocabulary import END, UNKNOWN, Vocabulary, WordCounts, count_words

COUNTS = Counter({b"the": 9, b"dog": 4, b"cat": 4, b"ox": 1, b"<unk>": 50, b"<eos>": 60, b"\xff": 70, b"": 80})


def test_the_most_frequent_words_in_order() -> None:
    vocabulary = Vocabulary.most_frequent(COUNTS, 3)
    assert vocabulary.words == (b"<unk>", b"<eos>", b"the", b"cat", b"dog")
    assert (vocabulary.words[UNKNOWN], vocabulary.words[END]) == (b"<unk>", b"<eos>")
    assert len(vocabulary) == 5


def test_symbols_spelt_in_text_are_unknown_words() -> None:
    vocabulary = Vocabulary.most_frequent(COUNTS, 10)
    assert vocabulary.encode([b"<eos> <unk> the \xff"]).ids.tolist() == [UNKNOWN, UNKNOWN, 2, UNKNOWN]
    assert b"<eos>" not in vocabulary
    assert b"the" in vocabulary


def test_coverage_counts_running_words() -> None:
    counts = Counter({b"the": 9, b"dog": 4, b"ox": 7})
    assert Vocabulary([b"the", b"dog"]).coverage(counts) == 13 / 20


def test_saved_and_loaded(tmp_path: Path) -> None:
    vocabulary = Vocabulary([b"the", "\u00a0\u2028".encode(), b"a\rb"])
    vocabulary.save(tmp_path / "words")
    loaded = Vocabulary.load(tmp_path / "words")
    assert loaded.words == vocabulary.words
    assert loaded.digest() == vocabulary.digest()


@pytest.mark.parametrize("content", [b"", b"the\ndog\n", b"<unk>\n<eos>\nthe\nthe\n"])
def test_a_file_that_is_not_a_vocabulary(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "words").write_bytes(content)
    with pytest.raises(UserError, match="is not a vocabulary"):
        Vocabulary.load(tmp_path / "words")


@given(st.lists(st.lists(st.sampled_from([b"the", b"dog", b"ox", b""]), max_size=4).map(b" ".join), max_size=6))
def test_encoding_skips_empty_tokens(phrases: list[bytes]) -> None:
    vocabulary = Vocabulary([b"the", b"dog"])
    encoded = vocabulary.encode(phrases)
    expected = [[word for word in phrase.split(b" ") if word] for phrase in phrases]
    assert encoded.lengths.tolist() == [len(words) for words in expected]
    known = {b"the": 2, b"dog": 3}
    assert encoded.ids.tolist() == [known.get(word, UNKNOWN) for words in expected for word in words]


def test_words_of_a_text(tmp_path: Path) -> None:
    (tmp_path / "text").write_bytes("a b  a\r\nb\u00a0c a\n".encode())
    assert count_words(tmp_path / "text") == {b"a": 3, b"b": 1, "b\u00a0c".encode(): 1}


@pytest.mark.parametrize(("unknown", "words", "are_many"), [(3, 10, True), (29, 100, False), (0, 0, False)])
def test_when_many_words_are_unknown(unknown: int, words: int, are_many: bool) -> None:
    assert WordCounts(source=words, source_unknown=unknown).are_many_unknown() == are_many
    assert WordCounts(target=words, target_unknown=unknown).are_many_unknown() == are_many
