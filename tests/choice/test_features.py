from __future__ import annotations

import math
from pathlib import Path

import kenlm
import numpy as np
import pytest

from phrasescore.choice.features import network_log_probs, phrase_log_probs, target_words
from phrasescore.choice.options import Options
from phrasescore.lm.ngram_model import load_kenlm
from phrasescore.scoring.engine import Scorer
from tests.cli.running import MODEL
from tests.conftest import MINI

TARGETS = [b"les chiens noirs", b"les chiens", b"", b"les <s> xyzzy \xff"]
OPTIONS = Options([b"the dogs", b"the black dogs"], np.array([0, 1, 4]), TARGETS, np.zeros((4, 0)))


def test_target_words() -> None:
    assert target_words(OPTIONS).tolist() == [3, 2, 0, 4]


def test_phrases_by_an_ngram_model() -> None:
    found = phrase_log_probs(load_kenlm(MINI / "lm.fr.arpa"), MINI / "lm.fr.arpa", OPTIONS)
    config = kenlm.Config()
    config.show_progress = False
    model = kenlm.Model(str(MINI / "lm.fr.arpa"), config)
    texts = ["les chiens noirs", "les chiens", "", "les <unk> xyzzy <unk>"]
    expected = [math.log(10) * model.score(text, bos=False, eos=False) for text in texts]
    assert found == pytest.approx(expected, abs=1e-5)
    assert found[2] == 0


def test_options_by_a_network() -> None:
    scorer = Scorer.load(Path(MODEL), device="cpu", precision="fp32")
    found = network_log_probs(scorer, OPTIONS)
    sources = [b"the dogs", b"the black dogs", b"the black dogs", b"the black dogs"]
    expected = [scorer.score([pair])[0] for pair in zip(sources, TARGETS, strict=True)]
    assert found == pytest.approx(np.maximum(expected, -100), abs=1e-4)
