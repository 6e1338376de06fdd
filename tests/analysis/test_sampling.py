from __future__ import annotations

import numpy as np
import pytest

import phrasescore
from phrasescore.analysis import sampling
from phrasescore.analysis.sampling import sample_targets
from phrasescore.scoring.encoder_decoder import EncoderDecoderScorer

SOURCE = b"the black house"


def test_samples_are_as_frequent_as_they_are_probable(scorer: EncoderDecoderScorer) -> None:
    number = 40_000
    samples = sample_targets(scorer, SOURCE, number, seed=3)
    assert 0.9 * number < sum(one.times for one in samples) <= number
    assert len({one.target for one in samples}) == len(samples)
    for one in samples[:20]:
        p = np.exp(one.log_prob)
        assert abs(one.times - number * p) < 5 * np.sqrt(number * p * (1 - p))


def test_the_probability_of_a_sample_is_the_score_of_the_pair(scorer: EncoderDecoderScorer) -> None:
    samples = [one for one in sample_targets(scorer, SOURCE, 200, seed=3) if b"<unk>" not in one.target][:20]
    scores = phrasescore.score([(SOURCE, one.target) for one in samples], scorer)
    assert scores == pytest.approx([one.log_prob for one in samples], abs=1e-4)


def test_the_seed_decides(scorer: EncoderDecoderScorer) -> None:
    assert sample_targets(scorer, SOURCE, 100, seed=1) == sample_targets(scorer, SOURCE, 100, seed=1)
    assert sample_targets(scorer, SOURCE, 100, seed=1) != sample_targets(scorer, SOURCE, 100, seed=2)


def test_samples_that_do_not_end_are_dropped(scorer: EncoderDecoderScorer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sampling, "LONGEST", 3)
    samples = sample_targets(scorer, SOURCE, 500, seed=1)
    assert max(one.target.count(b" ") for one in samples) == 2
    assert sum(one.times for one in samples) < 500
