from __future__ import annotations

import math
import sys
from pathlib import Path

import kenlm
import pytest

from phrasescore.errors import UserError
from phrasescore.lm.backoff import BackoffModel
from tests.conftest import MINI
from tests.lm.conftest import ARPA

LINES = (MINI / "test.fr").read_bytes().splitlines()


def test_sentences_are_scored_as_kenlm_scores_them() -> None:
    model, reference = BackoffModel(ARPA, []), kenlm.Model(str(ARPA))
    for line in LINES:
        [found] = model.word_log_probs([line.split(b" ")])
        expected = [2.302585092994046 * score for score, _, _ in reference.full_scores(line.decode())]
        assert found == pytest.approx(expected, abs=1e-9)


def test_shares_depend_on_the_word_before_and_sum_to_one() -> None:
    shortlist = [b"un", b"chien"]
    model = BackoffModel(ARPA, shortlist)
    unigrams = ARPA.read_text().split("\\1-grams:\n")[1].split("\n\n")[0].splitlines()
    outside = {line.split("\t")[1] for line in unigrams} - {"un", "chien", "<s>", "</s>"}
    shares = {before: model.log_share("noirs", before) for before in (None, "un", "chiens", "unheard-of")}
    assert len(set(shares.values())) == len(shares)
    for before in shares:
        assert sum(math.exp(model.log_share(word, before)) for word in outside) == pytest.approx(1.0, abs=1e-6)


def test_files_that_kenlm_cannot_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(UserError, match="is not there"):
        BackoffModel(tmp_path / "none", [])
    (tmp_path / "bad").write_text("no model\n")
    with pytest.raises(UserError, match="KenLM cannot read it"):
        BackoffModel(tmp_path / "bad", [])
    monkeypatch.setitem(sys.modules, "kenlm", None)
    with pytest.raises(UserError, match=r"pip install 'phrasescore\[smt\]'"):
        BackoffModel(ARPA, [])


def test_bytes_that_are_no_text_are_no_word(tmp_path: Path) -> None:
    """Though a model of badly converted text may know the character that stands for them."""
    (tmp_path / "lm.arpa").write_bytes(ARPA.read_bytes().replace(b"chien", "chi\ufffdn".encode()))
    model = BackoffModel(tmp_path / "lm.arpa", [])
    assert model.knows("chi\ufffdn".encode())
    assert not model.knows(b"chi\xe9n")
