"""Training that is measured by how well the network chooses among the table's options."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from phrasescore.choice.comparison import compare
from phrasescore.choice.features import network_log_probs
from phrasescore.choice.instances import DevText
from phrasescore.choice.problem import ChoiceProblem
from phrasescore.device import choose_device
from phrasescore.errors import UserError
from phrasescore.model_folder import METRICS
from phrasescore.pairs import Direction
from phrasescore.scoring.engine import Scorer
from phrasescore.sentences import ParallelText
from phrasescore.training.choice import ChoiceMeasure, DevSentences
from phrasescore.training.loop import Trainer
from phrasescore.training.phrase_pairs import PhrasePairTask
from phrasescore.training.run import Settings, prepare
from tests.conftest import MINI

CPU = choose_device("cpu", "fp32")
TEXT = ParallelText(MINI / "dev.en", MINI / "dev.fr")
DEV = DevSentences(TEXT, MINI / "lm.fr.arpa")


def set_up(table: Path, folder: Path, settings: Settings, dev: DevSentences = DEV) -> Trainer[PhrasePairTask]:
    return prepare(table, folder, settings, CPU, dev)[0]


def measure_of(trainer: Trainer[PhrasePairTask]) -> ChoiceMeasure:
    assert isinstance(trainer.task.validation, ChoiceMeasure)
    return trainer.task.validation


def metrics(folder: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (folder / METRICS).read_text().splitlines()]


@pytest.mark.parametrize("direction", ["target-given-source", "source-given-target"])
def test_the_weights_that_choose_best_are_kept(
    small_table: Path, tmp_path: Path, tiny_settings: Settings, direction: Direction
) -> None:
    settings = replace(tiny_settings, data=replace(tiny_settings.data, direction=direction))
    # With dropout, which an evaluation is without, and the training after it with.
    settings = replace(settings, model=replace(settings.model, dropout=0.3))
    said: list[str] = []
    trainer, _ = prepare(small_table, tmp_path / "run", settings, CPU, DEV, say=said.append)
    progress = trainer.train()
    assert trainer.network.training
    assert "choices among the options of" in said[0]
    records = metrics(tmp_path / "run")
    losses = [record["validation"]["per_choice"] for record in records]
    assert progress.best_loss == min(losses) < max(losses)
    assert [record["update"] for record in records if record["best"]][-1] == progress.best_update
    # What `phrasescore choice` says of the network that is in the folder.
    problem = ChoiceProblem.read(small_table, DevText.read(TEXT), 4, MINI / "lm.fr.arpa")
    column = network_log_probs(Scorer.load(tmp_path / "run", device="cpu", precision="fp32"), problem.options)
    base, row = compare(problem.base, {"network": column}, problem.options, problem.instances)
    assert row.nats == pytest.approx(min(losses), abs=1e-5)
    best = next(record["validation"] for record in records if record["update"] == progress.best_update)
    assert best["without_network"] == pytest.approx(base.nats, abs=1e-9)
    assert best["weight"] == pytest.approx(row.weights["network"], rel=1e-2, abs=1e-4)


def test_a_resumed_run_equals_one_never_stopped(
    small_table: Path, tmp_path: Path, tiny_settings: Settings
) -> None:  # fmt: skip
    whole = set_up(small_table, tmp_path / "whole", tiny_settings).train()
    trainer = set_up(small_table, tmp_path / "parts", tiny_settings)
    trainer.watcher = replace(trainer.watcher, should_stop=lambda: trainer.progress.update == 17)
    trainer.train()
    assert set_up(small_table, tmp_path / "parts", tiny_settings).train().best_loss == whole.best_loss
    parts, others = metrics(tmp_path / "parts"), metrics(tmp_path / "whole")
    assert [record["validation"] for record in parts] == [record["validation"] for record in others]


def test_other_choices_are_another_run(small_table: Path, tmp_path: Path, tiny_settings: Settings) -> None:
    set_up(small_table, tmp_path / "run", tiny_settings).train()
    lines = (MINI / "dev.fr").read_text().splitlines(keepends=True)
    (tmp_path / "turned").write_text("".join(reversed(lines)))
    others = DevSentences(ParallelText(TEXT.source, tmp_path / "turned"), DEV.language_model)
    for dev in (others, DevSentences(TEXT)):
        with pytest.raises(UserError, match="holds a run with other validation data; give the same"):
            set_up(small_table, tmp_path / "run", tiny_settings, dev)
    description = json.loads((tmp_path / "run/config.json").read_text())["training"]
    assert description["dev_source"] == str(TEXT.source)
    assert description["dev_language_model"] == str(DEV.language_model)


def test_it_needs_nothing_held_out_and_no_budget(small_table: Path, tmp_path: Path, tiny_settings: Settings) -> None:
    training = replace(tiny_settings.training, epochs=None, patience=1)
    settings = Settings(tiny_settings.model, replace(tiny_settings.data, held_out=0, held_out_limit=0), training)
    progress = set_up(small_table, tmp_path / "run", settings).train()
    assert progress.finished == "the measured loss no longer falls"


def test_a_network_that_is_no_longer_one_gives_a_loss_that_is_none(
    small_table: Path, tmp_path: Path, tiny_settings: Settings
) -> None:
    measure = measure_of(set_up(small_table, tmp_path / "run", tiny_settings))
    assert math.isfinite(measure.loss().per_example)
    with torch.no_grad():
        next(iter(measure.scorer.model.network.parameters())).fill_(math.nan)
    assert math.isnan(measure.loss().per_example)


def test_a_sample_has_whole_sources() -> None:
    problem = ChoiceProblem.read(MINI / "phrase-table.gz", DevText.read(TEXT), 4)
    sample = problem.sample(200)
    assert 150 < len(sample.options.targets) <= 200
    assert set(sample.options.sources) < set(problem.options.sources)
    assert sample.digest != problem.digest
    # Each choice has the options, the base and the right answers that it had.
    old = {source: number for number, source in enumerate(problem.options.sources)}
    chosen = [old[source] for source in sample.options.sources]
    numbers = np.concatenate([np.arange(*problem.options.offsets[source : source + 2]) for source in chosen])
    assert [problem.options.targets[number] for number in numbers] == sample.options.targets
    for name, values_O in sample.base.items():
        np.testing.assert_array_equal(problem.base[name][numbers], values_O)

    def words(some: ChoiceProblem, i: int) -> tuple[bytes, list[bytes]]:
        right = some.instances.right_R[some.instances.offsets[i] : some.instances.offsets[i + 1]]
        return some.options.sources[some.instances.source_I[i]], [some.options.targets[option] for option in right]

    expected = [words(problem, i) for i in range(len(problem.instances)) if problem.instances.source_I[i] in chosen]
    assert [words(sample, i) for i in range(len(sample.instances))] == expected
    # All of them, but for sources that are not chosen for.
    whole = problem.sample(len(problem.options.targets))
    assert len(whole.instances) == len(problem.instances)
    assert len(whole.options.sources) == len(np.unique(problem.instances.source_I))
