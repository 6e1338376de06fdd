"""Ranks of phrases equal the byte order of a table's lines."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from moses_integration.building.phrase_counts import phrase_ranks
from tests.moses_integration.building.corpora import corpus_of

# Words that sort before and after the `|||` behind a phrase, and words with another word as a prefix.
WORDS = st.sampled_from(["a", "a!", "aa", "{", "}", "}a", "~", "é", "\N{NO-BREAK SPACE}"])
SENTENCES = st.lists(st.lists(WORDS, max_size=6), min_size=1, max_size=6)


@given(SENTENCES, st.integers(1, 4))
def test_ranks_sort_as_the_lines_of_a_table(sentences: list[list[str]], longest: int) -> None:
    lines = [" ".join(words).encode() for words in sentences]
    text = corpus_of((line, b"", b"") for line in lines).source
    ranks = phrase_ranks(text, longest)
    ranked = set()
    for first, end in zip(text.offsets[:-1].tolist(), text.offsets[1:].tolist(), strict=True):
        for start in range(first, end):
            for length in range(1, min(longest, end - start) + 1):
                words = [text.words[word] for word in text.ids_N[start : start + length]]
                ranked.add((int(ranks[length - 1, start]), b" ".join(words) + b" ||| "))
    phrases = [phrase for _, phrase in sorted(ranked)]
    assert phrases == sorted(set(phrases))
    assert len({rank for rank, _ in ranked}) == len(phrases)
