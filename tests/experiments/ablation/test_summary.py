from __future__ import annotations

from statistics import stdev

import pytest

from experiments.ablation.summary import MEASURES, over_runs


def runs(*trainings: list[float]) -> list[dict[str, float]]:
    """Return the results of several trainings; all measures have the same values."""
    return [
        {"training": training, "seed": seed, **dict.fromkeys(MEASURES, value)}
        for training, values in enumerate(trainings, 1)
        for seed, value in enumerate(values, 1)
    ]


def test_the_deviation_of_several_trainings_has_two_parts() -> None:
    found = over_runs(runs([60.0, 62.0], [64.0, 64.0]))["test_bleu"]
    assert found["mean"] == 62.5
    assert found["standard_deviation"] == pytest.approx(stdev([60, 62, 64, 64]))
    assert found["training"] == pytest.approx(stdev([61, 64]))
    # The deviations over the seeds are the square root of 2, and 0.
    assert found["tuning"] == pytest.approx(1.0)


def test_one_training_has_the_deviation_over_its_seeds_alone() -> None:
    assert over_runs(runs([60.0, 62.0]))["chrf"] == {"mean": 61.0, "standard_deviation": pytest.approx(2**0.5)}
    assert over_runs(runs([60.0]))["chrf"] == {"mean": 60.0, "standard_deviation": None}
