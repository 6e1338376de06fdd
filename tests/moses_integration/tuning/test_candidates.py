from __future__ import annotations

import re
from collections.abc import Sequence

import numpy as np
import pytest

from moses_integration.nbest import NbestEntry, read_nbest
from moses_integration.tuning.bleu import read_references
from moses_integration.tuning.candidates import Candidates, from_nbest
from phrasescore.errors import UserError
from tests.conftest import MINI
from tests.moses_integration.tuning.extractor import mert_lists

Row = tuple[tuple[float, ...], tuple[int, ...]]


def rows_of(candidates: Candidates, sentence: int) -> list[Row]:
    where = candidates.of_sentence(sentence)
    features, statistics = candidates.features_CF[where].tolist(), candidates.statistics_C9[where].tolist()
    return [(tuple(f), tuple(s)) for f, s in zip(features, statistics, strict=True)]


def candidates_of(*lists: Sequence[Row]) -> Candidates:
    return Candidates.from_lists(
        ["LM0_0", "WordPenalty0_0"],
        [np.array([f for f, _ in rows], np.float64).reshape(-1, 2) for rows in lists],
        [np.array([s for _, s in rows], np.int32).reshape(-1, 9) for rows in lists],
    )


ONE, TWO, THREE = (1,) * 9, (2,) * 9, (3,) * 9


def test_nbest_lists_are_scored_as_moses_scores_them() -> None:
    """n-best lists get Moses' statistics.

    Except for ties, Moses' 50-best list is part of the 100-best list that its extractor scored.
    """
    ours = from_nbest(read_nbest(MINI / "decode/default.nbest.gz"), read_references([MINI / "dev.fr"]))
    moses = mert_lists(1)
    assert ours.names == moses.names
    found = 0
    for sentence in range(100):
        known = rows_of(moses, sentence)
        known_features = {features for features, _ in known}
        for row in rows_of(ours, sentence):
            if row[0] in known_features:
                assert row in known
                found += 1
    assert found > 0.99 * len(ours)


def test_lists_accumulate_without_duplicates() -> None:
    first, second = mert_lists(1), mert_lists(2)
    both = first.extended(second)
    assert both.sentence_count == 100
    for sentence in (0, 41, 99):
        assert rows_of(both, sentence) == list(dict.fromkeys(rows_of(first, sentence) + rows_of(second, sentence)))
    assert len(both.extended(first)) == len(both) == 14757


def test_equal_features_with_other_statistics_are_no_duplicates() -> None:
    candidates = candidates_of([((0.0, 1.0), ONE), ((-0.0, 1.0), ONE), ((0.0, 1.0), TWO)])
    assert rows_of(candidates, 0) == [((0, 1), ONE), ((0, 1), TWO)]


def test_sentences_without_candidates() -> None:
    short, long = candidates_of([], [((1, 2), ONE)]), candidates_of([((3, 4), TWO)], [], [((5, 6), THREE)])
    for both in (short.extended(long), long.extended(short)):
        assert [rows_of(both, s) for s in range(4)] == [[((3, 4), TWO)], [((1, 2), ONE)], [((5, 6), THREE)], []]
        assert both.offsets.tolist() == [0, 1, 2, 3]


def test_lists_of_other_features_do_not_mix() -> None:
    with pytest.raises(UserError, match="have the features LM0_0 WordPenalty0_0 where earlier ones have"):
        mert_lists(1).extended(candidates_of([((1, 2), ONE)]))


def entry(sentence: int, scores: bytes = b"LM0= -1 -2") -> NbestEntry:
    return NbestEntry(sentence, b"a b", scores, b"0")


@pytest.mark.parametrize(
    ("entries", "message"),
    [
        ([], "is empty"),
        ([entry(0, b"")], "has no features; decode with some that may be tuned, or add a scorer"),
        ([entry(2)], "has a sentence 2 .* where the references have 2 lines"),
        ([entry(0), entry(1, b"LM0= -1")], "sentence 1 has the features LM0_0 where the first has LM0_0 LM0_1"),
    ],
)
def test_faulty_nbest_lists(entries: list[NbestEntry], message: str) -> None:
    with pytest.raises(UserError, match=message):
        from_nbest(entries, [[b"a b"], [b"a"]])


@pytest.mark.parametrize("number", [np.nan, -np.inf, 1e39])
def test_a_feature_that_is_no_finite_number(number: float) -> None:
    """A feature that is not a finite 32-bit float is an error."""
    features = [np.array([[1.0, 2.0]]), np.array([[1.0, number]])]
    with pytest.raises(UserError, match=re.escape(f"sentence 1, candidate 0: the feature LM0_1 is {number}")):
        Candidates.from_lists(("LM0_0", "LM0_1"), features, [np.zeros((1, 9), np.int32)] * 2)
