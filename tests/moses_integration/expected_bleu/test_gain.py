"""The estimated gain of features, on n-best lists where it is known."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from moses_integration.expected_bleu.gain import EstimatedGain, estimate_gain
from moses_integration.tuning.bleu import bleu_statistics, smoothed_bleu
from moses_integration.tuning.candidates import Candidates
from phrasescore.errors import UserError

REFERENCE = [b"a b c d e f"]


def candidates(sentences: int, told: float, seed: int = 1) -> Candidates:
    """Return n-best lists with random errors; the third list is empty.

    The first feature is noise. The second feature is BLEU with weight `told`, plus noise with weight 1 - `told`.
    """
    draw = np.random.default_rng(seed)
    features, statistics = [], []
    for number in range(sentences):
        size = 0 if number == 2 else int(draw.integers(2, 9))
        words = [b" ".join(w if draw.random() < 0.6 else b"x" for w in REFERENCE[0].split()) for _ in range(size)]
        counted = bleu_statistics([*REFERENCE], words).reshape(-1, 9)
        noise = draw.normal(size=(size, 2))
        noise[:, 1] = told * smoothed_bleu(counted) + (1 - told) * noise[:, 1]
        features.append(noise)
        statistics.append(counted)
    return Candidates.from_lists(("Old0_0", "New0_0"), features, statistics)


def asked(found: Candidates, weights: tuple[float, float] = (1.0, 0.0)) -> NDArray[np.float64]:
    result = estimate_gain(found, weights)
    assert result.sentences == found.sentence_count - 1
    return np.array([result.without, result.gain, result.standard_error])


def test_the_gain_of_a_feature_that_knows_the_best_translation() -> None:
    found = candidates(200, told=1.0)
    without, gain, error = asked(found)
    smoothed_C = 100 * smoothed_bleu(found.statistics_C9)
    lists = [smoothed_C[found.of_sentence(sentence)] for sentence in range(200) if sentence != 2]
    chance, best = np.mean([one.mean() for one in lists]), np.mean([one.max() for one in lists])
    assert without == pytest.approx(chance, abs=3)
    assert without + gain > chance + 0.6 * (best - chance)
    assert gain > 10 * error > 0


def test_noise_has_no_gain_on_the_other_fold() -> None:
    """Noise has no gain on held-out lists; on the lists used for fitting it would always seem to help."""
    results = [asked(candidates(200, told=0.0, seed=seed)) for seed in range(8)]
    gains, errors = np.array(results)[:, 1], np.array(results)[:, 2]
    assert np.abs(gains).max() < 4 * errors.max()
    assert abs(gains.mean()) < 3 * errors.mean() / np.sqrt(len(gains))


def test_the_standard_error_is_how_far_the_gains_of_other_sentences_lie_apart() -> None:
    results = np.array([asked(candidates(100, told=0.3, seed=seed)) for seed in range(20)])
    assert results[:, 1].std() == pytest.approx(results[:, 2].mean(), rel=0.6)


@pytest.mark.parametrize(("gain", "is_certain"), [(2.1, True), (1.9, False), (-3.0, False)])
def test_a_gain_of_more_than_two_standard_errors_is_certain(gain: float, is_certain: bool) -> None:
    assert EstimatedGain(100, 30.0, 30.0 + gain, 1.0).is_certain is is_certain


def test_too_few_lists_tell_nothing() -> None:
    with pytest.raises(UserError, match="only 9 sentences have translations"):
        asked(candidates(10, told=1.0))
