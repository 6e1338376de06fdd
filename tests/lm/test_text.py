from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from phrasescore.errors import UserError
from phrasescore.lm.text import read_text
from phrasescore.vocabulary import Vocabulary
from phrasescore.words import split_words

WORDS = st.sampled_from([b"a", b"b", b"<unk>", b"<eos>", b"\xff", "\u2028".encode(), b"\tc"])
LINES = st.lists(st.lists(WORDS, max_size=4).map(b"  ".join), min_size=1, max_size=6)


@settings(max_examples=50, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(LINES)
def test_a_text_has_the_words_and_sentences_of_its_lines(tmp_path: Path, lines: list[bytes]) -> None:
    path = tmp_path / "text"
    path.write_bytes(b"".join(line + b"\n" for line in [b"a", *lines]))
    text = read_text(path)
    words = [split_words(line) for line in [b"a", *lines]]
    assert text.counts() == Counter(word for some in words for word in some)
    for vocabulary in (Vocabulary([]), Vocabulary([b"b", b"a"])):
        expected = vocabulary.encode([b" ".join(some) for some in words])
        found = text.encode(vocabulary)
        assert (found.ids.tolist(), found.offsets.tolist()) == (expected.ids.tolist(), expected.offsets.tolist())


def test_a_text_without_words_is_refused(tmp_path: Path) -> None:
    (tmp_path / "text").write_text("\n  \n")
    with pytest.raises(UserError, match="text: has no words; give a tokenised text"):
        read_text(tmp_path / "text")
