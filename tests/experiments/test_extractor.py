from __future__ import annotations

from pathlib import Path

import pytest

from experiments.goldens.extractor import read_candidates
from phrasescore.errors import UserError


def test_sentences_may_come_in_any_order_and_in_parts(tmp_path: Path) -> None:
    (tmp_path / "f").write_bytes(
        b"FEATURES_TXT_BEGIN_0 2 1 1 A_0 \n5 \nFEATURES_TXT_END_0\n"
        b"FEATURES_TXT_BEGIN_0 0 2 1 A_0 \n1 \n-2.5e-1\nFEATURES_TXT_END_0\n"
        b"FEATURES_TXT_BEGIN_0 2 1 1 A_0 \n6 \nFEATURES_TXT_END_0\n"
    )
    lines = [b"%d " % i * 9 for i in range(4)]
    (tmp_path / "s").write_bytes(
        b"SCORES_TXT_BEGIN_0 2 1 9 BLEU\n%s\nSCORES_TXT_END_0\n"
        b"SCORES_TXT_BEGIN_0 0 2 9 BLEU\n%s\n%s\nSCORES_TXT_END_0\n"
        b"SCORES_TXT_BEGIN_0 2 1 9 BLEU\n%s\nSCORES_TXT_END_0\n" % tuple(lines)
    )
    candidates = read_candidates(tmp_path / "f", tmp_path / "s")
    assert candidates.features_CF.ravel().tolist() == [1, -0.25, 5, 6]
    assert candidates.statistics_C9[:, 0].tolist() == [1, 2, 0, 3]
    assert candidates.offsets.tolist() == [0, 2, 2, 4]


FEATURES = b"FEATURES_TXT_BEGIN_0 0 2 2 A_0 A_1 \n1 2 \n3 4 \nFEATURES_TXT_END_0\n"
SCORES = b"SCORES_TXT_BEGIN_0 0 2 9 BLEU\n1 1 1 1 1 1 1 1 1 \n2 2 2 2 2 2 2 2 2 \nSCORES_TXT_END_0\n"


@pytest.mark.parametrize(
    ("features", "scores", "message"),
    [
        (b"", SCORES, "/f: is empty"),
        (FEATURES.replace(b"TXT_BEGIN", b"BIN_BEGIN"), SCORES, "/f: line 1: is not `FEATURES_TXT_BEGIN_0"),
        (FEATURES.replace(b"0 2 2", b"0 x 2"), SCORES, "/f: line 1: is not"),
        (FEATURES.replace(b"0 2 2", b"0 2 3"), SCORES, "/f: line 2: has 2 numbers, 3 numbers are needed"),
        (FEATURES.replace(b"A_1 ", b""), SCORES, "/f: line 1: names the features A_0 for 2 columns"),
        (FEATURES.replace(b"3 4", b"3 sparse=4"), SCORES, "/f: line 3: could not convert"),
        (FEATURES.replace(b"3 4", b"3 nan"), SCORES, "/f: sentence 0, candidate 1: the feature A_1 is nan"),
        (FEATURES.replace(b"1 2", b"-inf 2"), SCORES, "/f: sentence 0, candidate 0: the feature A_0 is -inf"),
        (FEATURES[:-25], SCORES, "/f: line 3: should be `FEATURES_TXT_END_0`"),
        (FEATURES[:-20], SCORES, "/f: line 4: should be `FEATURES_TXT_END_0`"),
        (FEATURES + FEATURES.replace(b"A_1", b"B_0"), SCORES + SCORES, "/f: line 5: names the features A_0 B_0"),
        (FEATURES + FEATURES, SCORES, "/f: line 5: .*/s has no list of 2 candidates of sentence 0"),
        (FEATURES, SCORES.replace(b"0 0 2", b"0 1 2"), "/f: line 1: .*/s has no list"),
        (FEATURES, SCORES + SCORES, "/s: has more lists"),
        (FEATURES, SCORES.replace(b"2 2 2 \n", b"2 2 0.5 \n"), "/s: line 3: invalid literal"),
        (FEATURES, b"SCORES_TXT_BEGIN_0 0 2 1 TER\n1\n2\nSCORES_TXT_END_0\n", "/s: line 1: has 1 statistics"),
    ],
)
def test_damaged_files(tmp_path: Path, features: bytes, scores: bytes, message: str) -> None:
    (tmp_path / "f").write_bytes(features)
    (tmp_path / "s").write_bytes(scores)
    with pytest.raises(UserError, match=message):
        read_candidates(tmp_path / "f", tmp_path / "s")
