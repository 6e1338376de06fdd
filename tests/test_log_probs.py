from __future__ import annotations

import math

import kenlm
import pytest

from phrasescore.lm.ngram_model import BackoffModel
from phrasescore.training.batches import perplexity
from tests.conftest import MINI
from tests.lm.conftest import ARPA


def test_perplexity_is_kenlm_s() -> None:
    line = (MINI / "test.fr").read_text().splitlines()[0]
    [scores] = BackoffModel(ARPA, []).word_log_probs([[word.encode() for word in line.split(" ")]])
    assert perplexity(-scores.mean()) == pytest.approx(kenlm.Model(str(ARPA)).perplexity(line), rel=1e-5)


def test_a_perplexity_beyond_all_numbers_is_infinite() -> None:
    assert perplexity(750.0) == math.inf
