"""Resumption of interrupted and killed training runs."""

from __future__ import annotations

import math
import shutil
import signal
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import phrasescore
from phrasescore.errors import UserError
from phrasescore.model_files import METRICS, WEIGHTS
from phrasescore.training.loop import Trainer
from phrasescore.training.run import prepare
from phrasescore.training.settings import Settings
from phrasescore.training.tasks import PhrasePairTask
from tests.cli import running
from tests.conftest import MINI
from tests.forked import ForkedPopen
from tests.training.runs import CPU, KilledError, die_in, metrics, outcome, run_until, train


@pytest.mark.parametrize(("optimiser", "dropout"), [("adam", 0.0), ("adadelta", 0.0), ("adam", 0.5)])
def test_a_resumed_run_equals_one_never_stopped(
    small_table: Path, tmp_path: Path, tiny_settings: Settings, optimiser: str, dropout: float
) -> None:
    training = replace(tiny_settings.training, optimiser=optimiser)
    settings = replace(tiny_settings, training=training, model=replace(tiny_settings.model, dropout=dropout))
    whole = train(small_table, tmp_path / "whole", settings).progress
    for stop in (3, 17, 25):
        stopped = train(small_table, tmp_path / "parts", settings, stop_after=stop)
        assert stopped.progress.finished is None
        assert stopped.progress.update == stop
    parts = train(small_table, tmp_path / "parts", settings).progress
    assert parts.update == whole.update == 2 * math.ceil(540 / 32)
    assert outcome(tmp_path / "parts") == outcome(tmp_path / "whole")
    assert [record["update"] for record in metrics(tmp_path / "whole")] == [10, 20, 30, 34]


def test_time_and_patience_go_on_where_a_run_stopped(
    small_table: Path, tmp_path: Path, tiny_settings: Settings
) -> None:
    stopped = train(small_table, tmp_path / "run", tiny_settings, stop_after=13)
    stopped.progress.evaluations_without_gain = 3
    stopped.state.save()
    resumed = prepare(small_table, tmp_path / "run", tiny_settings, CPU)
    assert resumed.progress.seconds == stopped.progress.seconds > 0
    assert resumed.progress.evaluations_without_gain == 3


def test_a_run_resumes_with_another_budget(small_table: Path, tmp_path: Path) -> None:
    """A run may resume with another budget and the settings derived from it.

    By default the budget depends on the size of the table.
    """
    options: dict[str, Any] = {"hidden": 8, "embedding": 5, "output_rank": 3, "device": "cpu"}
    phrasescore.train(small_table, tmp_path / "run", **options)
    before = len(metrics(tmp_path / "run"))
    phrasescore.train(small_table, tmp_path / "run", **options, max_updates=40, evaluate_every=40)
    updates = [record["update"] for record in metrics(tmp_path / "run")]
    assert updates[before:] == [40]


def test_a_finished_run_has_nothing_left_to_do(small_table: Path, tmp_path: Path, tiny_settings: Settings) -> None:
    train(small_table, tmp_path / "run", tiny_settings)
    before = (tmp_path / "run" / METRICS).read_bytes()
    again = train(small_table, tmp_path / "run", tiny_settings)
    assert again.progress.finished == "the budget is spent"
    assert (tmp_path / "run" / METRICS).read_bytes() == before


def test_a_killed_run_resumes_to_the_same_weights(small_table: Path, tmp_path: Path, tiny_settings: Settings) -> None:
    """A run killed by SIGKILL resumes from its last checkpoint and ends with the same weights."""
    options = (
        "--hidden 8 --set model.embedding=5 --set model.output_rank=3 --batch-size 16 --epochs 6 --evaluate-every 25"
    )
    command = ["train", str(small_table), "--device", "cpu", *options.split(), "-q", "-o"]
    assert running.run(*command, tmp_path / "whole").returncode == 0
    for attempt in range(2):
        process = ForkedPopen(["phrasescore", *command, tmp_path / "killed"], running.ENVIRONMENT)
        state = tmp_path / "killed" / "training-state" / "checkpoint.safetensors"
        before = state.stat().st_mtime_ns if state.exists() else 0
        while process.poll() is None and (state.stat().st_mtime_ns if state.exists() else 0) == before:
            time.sleep(0.01)
        time.sleep(attempt / 20)
        process.send_signal(signal.SIGKILL)
        assert process.wait() == -signal.SIGKILL
    assert running.run(*command, tmp_path / "killed").returncode == 0
    assert outcome(tmp_path / "killed") == outcome(tmp_path / "whole")
    assert not list((tmp_path / "killed").rglob("*.ids"))


@pytest.mark.parametrize("place", ["save_weights", "save"])
def test_a_kill_does_not_separate_the_weights_from_their_description(
    small_table: Path, tmp_path: Path, tiny_settings: Settings, monkeypatch: pytest.MonkeyPatch, place: str
) -> None:
    """A kill between writing the weights and their record leaves both consistent.

    The kill comes between the two files of the evaluation after update 20.
    """
    train(small_table, tmp_path / "run", tiny_settings, stop_after=15)
    trainer = prepare(small_table, tmp_path / "run", tiny_settings, CPU)
    with monkeypatch.context() as patched:
        die_in(patched, trainer.state, place)
        with pytest.raises(KilledError):
            trainer.train()
    assert trainer.progress.best_update == 20
    resumed = prepare(small_table, tmp_path / "run", tiny_settings, CPU)
    assert resumed.progress.best_update == (20 if place == "save_weights" else 10)
    train(small_table, tmp_path / "other", tiny_settings, stop_after=resumed.progress.best_update)
    assert (tmp_path / "run" / WEIGHTS).read_bytes() == (tmp_path / "other" / WEIGHTS).read_bytes()


def test_other_settings_or_data_do_not_resume(small_table: Path, tmp_path: Path, tiny_settings: Settings) -> None:
    folder = tmp_path / "run"
    train(small_table, folder, tiny_settings)
    other = replace(tiny_settings, training=replace(tiny_settings.training, batch_size=16))
    with pytest.raises(UserError, match=r"another batch_size \(32, now 16\)"):
        train(small_table, folder, other)
    with pytest.raises(UserError, match="holds a run with another table; give the same"):
        train(MINI / "phrase-table.gz", folder, tiny_settings)
    longer = replace(tiny_settings, training=replace(tiny_settings.training, epochs=3, patience=7))
    assert train(small_table, folder, longer).progress.update == 51


def test_a_corpus_is_known_by_its_words(small_table: Path, tmp_path: Path, tiny_settings: Settings) -> None:
    for name, text in (("corpus.en", "train.en"), ("moved.en", "train.en"), ("other.en", "test.en")):
        shutil.copy(MINI / text, tmp_path / name)

    def resume(corpus: str) -> Trainer[PhrasePairTask]:
        data = replace(tiny_settings.data, source_corpus=tmp_path / corpus)
        return train(small_table, tmp_path / "run", replace(tiny_settings, data=data), stop_after=1)

    resume("corpus.en")
    assert resume("moved.en").progress.update > 1
    with pytest.raises(UserError, match="holds a run with other vocabularies; give the same"):
        resume("other.en")


def test_another_validation_table_does_not_resume(small_table: Path, tmp_path: Path, tiny_settings: Settings) -> None:
    """A run does not resume with another validation table, because its lowest loss would not be comparable."""
    folder = tmp_path / "run"

    def resume(validation: Path | None) -> Trainer[PhrasePairTask]:
        trainer = prepare(small_table, folder, tiny_settings, CPU, validation)
        return run_until(trainer, trainer.progress.update + 1)

    resume(small_table)
    for other in (MINI / "phrase-table.gz", None):
        with pytest.raises(UserError, match="holds a run with other validation data; give the same"):
            resume(other)
    assert resume(small_table).progress.update == 2


def test_a_run_without_an_update_makes_room_for_another(
    small_table: Path, tmp_path: Path, tiny_settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*arguments: Any) -> None:
        raise RuntimeError("at the first update")

    trainer = prepare(small_table, tmp_path / "run", tiny_settings, CPU)
    monkeypatch.setattr(trainer.network, "forward", fail)
    other = replace(tiny_settings, training=replace(tiny_settings.training, learning_rate=0.003))
    with pytest.raises(RuntimeError, match="at the first update"):
        trainer.train()
    assert train(small_table, tmp_path / "run", other).progress.update == 34


def test_a_full_disk_is_blamed_on_the_file_that_grows(
    small_table: Path, tmp_path: Path, tiny_settings: Settings
) -> None:
    trainer = prepare(small_table, tmp_path / "run", tiny_settings, CPU)
    (tmp_path / "run" / METRICS).unlink(missing_ok=True)
    (tmp_path / "run" / METRICS).symlink_to("/dev/full")
    with pytest.raises(UserError, match=rf"{METRICS}: cannot be written \(No space left on device\); free space or"):
        trainer.train()
