"""Training budgets and learning-rate schedules."""

from __future__ import annotations

from typing import Any

import pytest

from phrasescore.errors import UsageError
from phrasescore.training.checkpoint import TrainingProgress
from phrasescore.training.training_config import Budget, Schedule, TrainingConfig


@pytest.mark.parametrize(("schedule", "middle"), [("constant", 1.0), ("linear", 0.55), ("cosine", 0.55)])
def test_the_rate_rises_and_falls(schedule: Schedule, middle: float) -> None:
    config = TrainingConfig(schedule=schedule, warmup_updates=10, final_rate=0.1, learning_rate=2.0, max_updates=10**6)
    budget = Budget(config, 100)
    for update, factor in ((0, 0.1), (9, 1.0), (10**6 // 2, middle), (10**6, 1.0 if schedule == "constant" else 0.1)):
        assert budget.learning_rate(TrainingProgress(update)) == pytest.approx(2 * factor, rel=1e-4)


@pytest.mark.parametrize(
    ("options", "warmup"),
    [
        ({"max_updates": 80}, 8),
        ({"epochs": 4}, 12),
        ({"epochs": 4, "max_updates": 50}, 5),
        ({"max_updates": 3}, 0),
        ({"max_updates": 10_000}, 200),
        ({"max_minutes": 3.0}, 200),
        ({"max_updates": 80, "warmup_updates": 40}, 40),
        ({"max_updates": 80, "warmup_updates": 0}, 0),
    ],
)
def test_a_short_training_has_a_short_warm_up(options: dict[str, Any], warmup: int) -> None:
    assert Budget(TrainingConfig(**options), 30).warmup == warmup


@pytest.mark.parametrize(
    ("options", "is_measured"), [({}, False), ({"patience": 0}, True), ({"schedule": "linear"}, True)]
)
def test_a_training_that_would_not_end(options: dict[str, Any], is_measured: bool) -> None:
    config = TrainingConfig(**{"schedule": "constant", **options})
    with pytest.raises(UsageError, match="epochs, max_minutes, max_updates: one must be given; without a budget"):
        Budget(config, 30).check(is_measured=is_measured)
    Budget(TrainingConfig(schedule="constant"), 30).check(is_measured=True)


def test_a_tenth_of_the_minutes_ends_the_warm_up() -> None:
    budget = Budget(TrainingConfig(max_minutes=1.0, schedule="constant", learning_rate=2.0), 30)
    rates = [budget.learning_rate(TrainingProgress(update=9, seconds=seconds)) for seconds in (0.0, 3.0, 6.0, 50.0)]
    assert rates == pytest.approx([0.1, 1.0, 2.0, 2.0])


@pytest.mark.parametrize("options", [{"max_updates": 10, "warmup_updates": 11}, {"epochs": 2, "warmup_updates": 61}])
def test_a_training_that_would_not_reach_its_learning_rate(options: dict[str, Any]) -> None:
    with pytest.raises(UsageError, match=r"`warmup_updates`: is .* so it never reaches the learning rate; give less"):
        Budget(TrainingConfig(**options), 30).check(is_measured=True)
    Budget(TrainingConfig(**{**options, "warmup_updates": 10}), 30).check(is_measured=True)


def test_the_spent_budget() -> None:
    budget = Budget(TrainingConfig(epochs=4, max_updates=50), 30)
    assert budget.updates == 50
    assert budget.epochs(TrainingProgress(epoch=1, batch=15)) == 1.5
    assert budget.spent(TrainingProgress(update=45, epoch=1, batch=15)) == 0.9
    assert Budget(TrainingConfig(max_minutes=1.0), 30).updates is None
