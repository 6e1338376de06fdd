from __future__ import annotations

import itertools
from dataclasses import replace
from pathlib import Path

import pytest

from phrasescore.configuration import check_values
from phrasescore.nn.architecture import ModelConfig
from phrasescore.training.run import prepare
from phrasescore.training.settings import Settings, dropout_by_size, updates_by_size
from tests.training.runs import CPU, outcome, run_until

SIZES = [1, 60, 5_000, 62_500, 670_000, 1_200_000, 3_600_000, 20_700_000, 10**9]


@pytest.mark.parametrize(("pairs", "good"), [(670_000, 0.4), (1_200_000, 0.4), (3_600_000, 0.3), (20_700_000, 0.3)])
def test_the_dropout_is_near_what_was_good(pairs: int, good: float) -> None:
    assert dropout_by_size(pairs) == pytest.approx(good, abs=0.05)


def test_a_small_table_has_more_dropout_and_more_epochs_and_fewer_updates() -> None:
    dropouts = [dropout_by_size(pairs) for pairs in SIZES]
    assert dropouts == sorted(dropouts, reverse=True)
    updates = [updates_by_size(pairs, 384) for pairs in SIZES]
    assert updates == sorted(updates)
    passes = [number * 384 / pairs for number, pairs in zip(updates, SIZES, strict=True) if pairs > 384]
    assert all(before >= after - 0.1 for before, after in itertools.pairwise(passes))
    assert updates_by_size(1_000_000, 400) == 2_050
    assert updates_by_size(4_000_000, 400) == 4_100


def test_updates_in_context_are_those_that_were_good() -> None:
    assert updates_by_size(29_000, 32, in_context=True) == pytest.approx(16_000, rel=0.01)
    assert updates_by_size(1_000, 32, in_context=True) == 938


@pytest.mark.parametrize("in_context", [False, True])
@pytest.mark.parametrize("examples", SIZES)
def test_settings_by_size_are_in_the_range_of_the_options(examples: int, in_context: bool) -> None:
    settings = Settings.of("aligned" if in_context else "table", None, []).fitted(examples)
    check_values(ModelConfig, {"dropout": settings.model.dropout}, "here")
    training = settings.training
    assert not settings.by_size
    assert training.max_updates is not None
    assert training.max_updates // training.evaluate_every >= min(training.max_updates, 20)
    assert not in_context or settings.model.dropout == 0.4


def test_a_run_that_follows_the_table_resumes(small_table: Path, tmp_path: Path, tiny_settings: Settings) -> None:
    training = replace(tiny_settings.training, epochs=None)
    by_size = frozenset({"dropout", "max_updates"})
    settings = replace(tiny_settings, training=training, by_size=by_size)
    runs = [("whole", None), ("parts", 7), ("parts", 60), ("parts", None)]
    for folder, stop in runs:
        trainer = prepare(small_table, tmp_path / folder, settings, CPU)
        assert trainer.task.network.config.dropout == dropout_by_size(600) == 0.6
        assert trainer.config.max_updates == updates_by_size(600, 32) == 94
        assert trainer.config.evaluate_every == 10
        run_until(trainer, stop)
    assert trainer.progress.update == 94
    assert outcome(tmp_path / "whole") == outcome(tmp_path / "parts")
