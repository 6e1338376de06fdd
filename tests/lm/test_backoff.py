from __future__ import annotations

import math
import re
import sys
from pathlib import Path

import kenlm
import pytest

from phrasescore.errors import UserError
from phrasescore.lm.ngram_model import BackoffModel
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
    with pytest.raises(UserError, match="does not exist"):
        BackoffModel(tmp_path / "none", [])
    (tmp_path / "bad").write_text("no model\n")
    with pytest.raises(UserError, match="KenLM cannot read it"):
        BackoffModel(tmp_path / "bad", [])
    monkeypatch.setitem(sys.modules, "kenlm", None)
    with pytest.raises(UserError, match=r"needs the module `kenlm`; pip install ufal.kenlm"):
        BackoffModel(ARPA, [])


def test_bytes_that_are_no_text_are_no_word(tmp_path: Path) -> None:
    """Invalid UTF-8 is an unknown word, even if the model of badly converted text has the replacement character."""
    (tmp_path / "lm.arpa").write_bytes(ARPA.read_bytes().replace(b"chien", "chi\ufffdn".encode()))
    model = BackoffModel(tmp_path / "lm.arpa", [])
    assert "chi\ufffdn".encode() in model
    assert b"chi\xe9n" not in model


def test_a_word_that_spells_a_symbol_is_unknown() -> None:
    model = BackoffModel(ARPA, [])
    assert b"chien" in model
    assert not any(word in model for word in (b"<s>", b"</s>", b"<unk>"))
    [start, end, unknown] = (model.word_log_probs([[word]])[0].tolist() for word in (b"<s>", b"</s>", b"<unk>"))
    assert start == end == unknown


@pytest.mark.parametrize("number", [b"-inf", b"-1e39"])
def test_a_probability_of_0_is_rejected_where_it_is_met(tmp_path: Path, number: bytes) -> None:
    """A probability of 0 is an error when a word uses it, although KenLM accepts it."""
    (tmp_path / "lm.arpa").write_bytes(re.sub(rb"\n[^\t\n]*(?=\t(lettre|<unk>)\t)", b"\n" + number, ARPA.read_bytes()))
    model = BackoffModel(tmp_path / "lm.arpa", [b"un"])
    rejected = pytest.raises(
        UserError, match=r"lm.arpa: gives words log-probabilities that are infinite or above 0; fix"
    )
    assert model.word_log_probs([[b"un", b"chien"]])[0].max() < 0
    with rejected:
        model.word_log_probs([[b"un", b"chien", b"lettre"]])
    for word in ("lettre", "chien"):
        # Its share is relative to the words outside the shortlist, which include the unknown word.
        with rejected:
            model.log_share(word, None)


def test_a_back_off_weight_that_makes_a_probability_more_than_1(tmp_path: Path) -> None:
    text = ARPA.read_bytes().replace(b"\tlettre\t-0.20570503", b"\tlettre\t1e30")
    (tmp_path / "lm.arpa").write_bytes(text)
    model = BackoffModel(tmp_path / "lm.arpa", [b"un"])
    with pytest.raises(UserError, match="infinite or above 0"):
        model.log_share("chien", "lettre")


def test_an_unknown_word_that_is_all_but_impossible_has_a_share(tmp_path: Path) -> None:
    """An unknown word with a tiny probability has a share even if the shortlist's probabilities exceed 1."""
    words = b"\\data\\\nngram 1=4\nngram 2=1\n\n\\1-grams:\n-400\t<unk>\n-1\t<s>\t0\n0\t</s>\t0\n0\ta\t0\n"
    (tmp_path / "lm.arpa").write_bytes(words + b"\n\\2-grams:\n-1\ta a\n\n\\end\\\n")
    assert math.isfinite(BackoffModel(tmp_path / "lm.arpa", [b"a"]).log_share("other", None))


def test_shares_of_a_shortlist_with_more_than_the_whole_probability(tmp_path: Path) -> None:
    """Shares are defined if rounded shortlist probabilities exceed 1.

    The remaining probability is then that of the unknown word.
    """
    words = (
        b"\\data\\\nngram 1=6\nngram 2=1\n\n\\1-grams:\n-3\t<unk>\n-1\t<s>\t0\n-1\t</s>\t0\n"
        b"-0.0457\ta\t0\n-4\trare\t0\n-2\tb\t0\n"
    )
    (tmp_path / "lm.arpa").write_bytes(words + b"\n\\2-grams:\n-1\ta a\n\n\\end\\\n")
    model = BackoffModel(tmp_path / "lm.arpa", [b"a"])
    assert model.log_share("rare", "b") == pytest.approx(math.log(0.1))
    assert model.log_share("b", "b") == 0
    assert model.log_share("other", "b") == pytest.approx(0)
