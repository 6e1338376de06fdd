from __future__ import annotations

from collections import Counter
from pathlib import Path

import numpy as np
import pytest
import sacrebleu
from hypothesis import given
from hypothesis import strategies as st

from moses_integration.tuning.bleu import bleu, bleu_statistics, read_dev_set, read_references, smoothed_bleu
from phrasescore.errors import UserError
from tests.moses_integration.corpus_bleu import corpus_bleu

# A small vocabulary, so that n-grams match and repeat.
sentences = st.lists(st.sampled_from(["a", "b", "c", "é"]), min_size=1, max_size=9).map(" ".join)
corpora = st.integers(1, 3).flatmap(
    lambda references: st.lists(
        st.tuples(sentences, st.lists(sentences, min_size=references, max_size=references)), min_size=1, max_size=5
    )
)


def naive_statistics(references: list[str], candidate: str) -> list[int]:
    """Compute the statistics by definition."""
    row = []
    words = candidate.split(" ")
    for order in range(1, 5):
        counts = Counter(tuple(words[start : start + order]) for start in range(len(words) - order + 1))
        limits: Counter[tuple[str, ...]] = Counter()
        for reference in references:
            tokens = reference.split(" ")
            limits |= Counter(tuple(tokens[start : start + order]) for start in range(len(tokens) - order + 1))
        row += [sum((counts & limits).values()), sum(counts.values())]
    lengths = sorted(len(reference.split(" ")) for reference in references)
    return [*row, min(lengths, key=lambda length: (abs(length - len(words)), length))]


@given(st.lists(sentences, min_size=1, max_size=4), st.lists(sentences, min_size=1, max_size=4))
def test_statistics_follow_their_definition(references: list[str], candidates: list[str]) -> None:
    found = bleu_statistics([text.encode() for text in references], [text.encode() for text in candidates])
    assert found.tolist() == [naive_statistics(references, text) for text in candidates]


@given(corpora)
def test_bleu_is_sacrebleus(corpus: list[tuple[str, list[str]]]) -> None:
    translations = [translation for translation, _ in corpus]
    streams = [list(stream) for stream in zip(*(references for _, references in corpus), strict=True)]
    theirs = sacrebleu.corpus_bleu(translations, streams, tokenize="none", smooth_method="none", force=True)
    ours = corpus_bleu([text.encode() for text in translations], [[r.encode() for r in refs] for _, refs in corpus])
    assert 100 * ours == pytest.approx(theirs.score, rel=1e-9)


def test_the_arithmetic_of_bleu() -> None:
    # 5 words for 6: precisions 4/5, 3/4, 2/3, 1/2, brevity exp(1 - 6/5).
    row = np.array([4, 5, 3, 4, 2, 3, 1, 2, 6])
    assert bleu(row) == pytest.approx((0.8 * 0.75 * 2 / 3 * 0.5) ** 0.25 * np.exp(-0.2))
    assert smoothed_bleu(row) == pytest.approx((5 / 6 * 4 / 5 * 3 / 4 * 2 / 3) ** 0.25 * np.exp(-0.2))


def test_bleu_of_many_points_at_once() -> None:
    rows = np.array(
        [[[9, 9, 8, 8, 7, 7, 6, 6, 9], [3, 4, 2, 3, 1, 2, 0, 1, 4]], [[0] * 9, [2, 2, 1, 1, 0, 0, 0, 0, 2]]]
    )
    assert bleu(rows).tolist() == [[1, 0], [0, 0]]
    assert bleu(rows).shape == smoothed_bleu(rows).shape == (2, 2)
    assert smoothed_bleu(rows)[0, 1] > 0
    assert smoothed_bleu(rows)[1, 0] == 1


def test_no_words_are_no_translation() -> None:
    """An empty translation has the smoothed BLEU 0, unless its reference is empty too."""
    nothing, wrong = bleu_statistics([b"oui"], [b"", b"non"])
    assert smoothed_bleu(nothing) == 0 < smoothed_bleu(wrong)
    assert smoothed_bleu(bleu_statistics([b""], [b""])[0]) == 1


def test_only_spaces_separate_words() -> None:
    reference = "a\u00a0b c".encode()
    found = bleu_statistics([reference], [b"a b c", b"  a\xc2\xa0b  c ", b"", b"A\xc2\xa0B c"])
    assert found.tolist() == [
        [1, 3, 0, 2, 0, 1, 0, 0, 2],
        [2, 2, 1, 1, 0, 0, 0, 0, 2],
        [0, 0, 0, 0, 0, 0, 0, 0, 2],
        [1, 2, 0, 1, 0, 0, 0, 0, 2],
    ]


def test_of_two_references_equally_close_the_shorter_counts() -> None:
    assert bleu_statistics([b"a a a a a", b"a a a"], [b"a a a a"])[0, 8] == 3


def test_no_translations() -> None:
    assert bleu_statistics([b"a"], []).shape == (0, 9)


def test_reference_files(tmp_path: Path) -> None:
    first, second = tmp_path / "0", tmp_path / "1"
    first.write_bytes("a\u2028b\nc\n".encode())
    second.write_bytes(b"d\ne\n")
    assert read_references([first, second]) == [("a\u2028b".encode(), b"d"), (b"c", b"e")]
    second.write_bytes(b"d\n")
    with pytest.raises(UserError, match=r"0: has 2 lines but .*1 has 1; give files of the same sentences"):
        read_references([first, second])


def test_dev_sets_that_do_not_fit(tmp_path: Path) -> None:
    source, reference = tmp_path / "dev.en", tmp_path / "dev.fr"
    source.write_text("a\nb\n")
    reference.write_text("c\n")
    with pytest.raises(UserError, match=f"^{source}: has 2 lines but {reference} has 1; give files of the same"):
        read_dev_set(source, [reference])
    source.write_text("")
    reference.write_text("")
    with pytest.raises(UserError, match=f"^{source}: is empty; give some hundred"):
        read_dev_set(source, [reference])
