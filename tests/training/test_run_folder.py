"""Locking of a training folder, and when its network may be replaced."""

from __future__ import annotations

import gc
import gzip
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from phrasescore.errors import UserError
from phrasescore.model_files import WEIGHTS
from phrasescore.model_folder import load_model
from phrasescore.pairs import DataConfig
from phrasescore.training import checkpoint, loop, run
from phrasescore.training.checkpoint import RunFolder
from phrasescore.training.loop import Callbacks, Start
from phrasescore.training.run import prepare
from phrasescore.training.settings import Settings
from phrasescore.training.training_config import TrainingConfig
from phrasescore.vocabulary import Vocabulary
from tests.conftest import MINI, TINY
from tests.training.runs import CPU, KilledError, contents, die_in, metrics, outcome, run_until, train


def test_a_folder_that_cannot_be_made(small_table: Path, tiny_settings: Settings) -> None:
    with pytest.raises(UserError, match=r"^/proc/rnn: cannot be made \(.*\); check the folder and its rights"):
        prepare(small_table, Path("/proc/rnn"), tiny_settings, CPU)


def test_folders_that_hold_something_else(small_table: Path, tmp_path: Path, tiny_settings: Settings) -> None:
    with pytest.raises(UserError, match="is not empty and holds no model"):
        prepare(small_table, tmp_path, tiny_settings, CPU)
    with pytest.raises(UserError, match="is a file"):
        prepare(small_table, small_table, tiny_settings, CPU)
    train(small_table, tmp_path / "run", tiny_settings)
    (tmp_path / "run/training-state/checkpoint.safetensors").write_bytes(b"damaged")
    with pytest.raises(UserError, match="is damaged"):
        prepare(small_table, tmp_path / "run", tiny_settings, CPU)
    (tmp_path / "run/training-state/checkpoint.safetensors").unlink()
    with pytest.raises(UserError, match="not the state of its training"):
        prepare(small_table, tmp_path / "run", tiny_settings, CPU)


@pytest.mark.parametrize("was_there", [False, True])
def test_a_run_that_does_not_begin_leaves_nothing(
    small_table: Path, tmp_path: Path, tiny_settings: Settings, was_there: bool
) -> None:
    faulty, folder = tmp_path / "faulty", tmp_path / "rnn"
    faulty.write_bytes(small_table.read_bytes()[:2000])
    if was_there:
        folder.mkdir()
    for settings, table in (
        (tiny_settings, faulty),
        (replace(tiny_settings, data=DataConfig(held_out=1)), small_table),
    ):
        with pytest.raises(UserError):
            prepare(table, folder, settings, CPU)
        assert folder.exists() == was_there
        assert not was_there or not list(folder.iterdir())
    train(small_table, folder, tiny_settings, stop_after=3)
    kept = sorted(path.name for path in folder.rglob("*"))
    with pytest.raises(UserError):
        prepare(faulty, folder, tiny_settings, CPU)
    assert sorted(path.name for path in folder.rglob("*")) == kept


def test_a_faulty_table_does_not_cost_the_old_model(small_table: Path, tmp_path: Path, tiny_settings: Settings) -> None:
    train(small_table, tmp_path / "run", tiny_settings)
    before = contents(tmp_path / "run")
    (tmp_path / "faulty").write_bytes(b"broken\n")
    with pytest.raises(UserError, match="line 1"):
        prepare(tmp_path / "faulty", tmp_path / "run", tiny_settings, CPU, start=Start(restart=True))
    assert contents(tmp_path / "run") == before


@pytest.mark.parametrize("restart", [False, True])
def test_two_runs_do_not_share_a_folder(
    small_table: Path, tmp_path: Path, tiny_settings: Settings, restart: bool
) -> None:
    """A second run in the same folder fails before it changes any file of the first."""
    first = prepare(small_table, tmp_path / "run", tiny_settings, CPU)
    other = replace(tiny_settings, data=DataConfig(source_vocabulary=5))

    def start_second() -> bool:
        if first.progress.update < 12:
            return False
        before = contents(tmp_path / "run")
        with pytest.raises(UserError, match="another run is training"):
            prepare(small_table, tmp_path / "run", other, CPU, start=Start(restart=restart))
        assert contents(tmp_path / "run") == before
        return True

    first.callbacks = Callbacks(should_stop=start_second)
    assert first.train().update == 12
    assert prepare(small_table, tmp_path / "run", tiny_settings, CPU).progress.update == 12


def test_a_deleted_trainer_unlocks_the_folder(small_table: Path, tmp_path: Path, tiny_settings: Settings) -> None:
    prepare(small_table, tmp_path / "run", tiny_settings, CPU)
    gc.collect()
    assert train(small_table, tmp_path / "run", tiny_settings).progress.finished


def test_restart(small_table: Path, tmp_path: Path, tiny_settings: Settings) -> None:
    train(small_table, tmp_path / "run", tiny_settings, stop_after=15)
    trainer = prepare(small_table, tmp_path / "run", tiny_settings, CPU, start=Start(restart=True))
    assert trainer.progress.update == 0
    trainer.train()
    train(small_table, tmp_path / "fresh", tiny_settings)
    assert outcome(tmp_path / "run") == outcome(tmp_path / "fresh")
    assert [record["update"] for record in metrics(tmp_path / "run")] == [10, 20, 30, 34]


@pytest.fixture(scope="module")
def other_settings() -> Settings:
    """Settings of another network and vocabulary."""
    model = replace(TINY, hidden=9)
    training = TrainingConfig(batch_size=32, epochs=1, evaluate_every=8, warmup_updates=5, learning_rate=5e-3)
    return Settings(model, DataConfig(held_out=0.1, source_vocabulary=9), training)


@pytest.fixture(scope="module")
def old_and_fresh(tmp_path_factory: pytest.TempPathFactory, other_settings: Settings) -> tuple[Path, Path, Path]:
    """A table, a folder with a trained network, and a folder trained with the other settings."""
    root = tmp_path_factory.mktemp("runs")
    lines = gzip.decompress((MINI / "phrase-table.gz").read_bytes()).splitlines(keepends=True)[:600]
    (root / "table").write_bytes(b"".join(lines))
    training = replace(other_settings.training, max_updates=9)
    train(root / "table", root / "old", Settings(TINY, DataConfig(held_out=0.1), training))
    train(root / "table", root / "fresh", other_settings)
    return root / "table", root / "old", root / "fresh"


@pytest.mark.parametrize(
    ("owner", "name", "after"),
    [
        (RunFolder, "clear", 0),
        (Path, "unlink", 1),
        (Path, "unlink", 2),
        (run, "save_description", 0),
        (Vocabulary, "save", 1),
        (checkpoint, "write_tensors", 0),
        (loop.Trainer, "_update", 5),
        (checkpoint, "write_tensors", 1),
        (checkpoint, "save_weights", 0),
        (loop.Trainer, "_update", 10),
    ],
)
def test_a_kill_of_a_run_that_starts_over_leaves_no_mixture_of_two_networks(
    tmp_path: Path,
    old_and_fresh: tuple[Path, Path, Path],
    other_settings: Settings,
    monkeypatch: pytest.MonkeyPatch,
    owner: Any,
    name: str,
    after: int,
) -> None:
    """After a kill at any moment, the folder holds one complete network or none, and the same command succeeds."""
    table, old, fresh = old_and_fresh
    folder = tmp_path / "run"
    shutil.copytree(old, folder)
    with monkeypatch.context() as patched:
        die_in(patched, owner, name, after)
        with pytest.raises(KilledError):
            prepare(table, folder, other_settings, CPU, start=Start(restart=True)).train()
    if (folder / WEIGHTS).exists():
        hidden = load_model(folder).network.config.hidden
        assert (folder / WEIGHTS).read_bytes() == (old / WEIGHTS).read_bytes() or hidden == 9
    else:
        with pytest.raises(UserError, match=r"has no weights|has lost its|is not the vocabulary"):
            load_model(folder)
        train(table, folder, other_settings)
        assert outcome(folder) == outcome(fresh)
    prepare(table, folder, other_settings, CPU, start=Start(restart=True)).train()
    assert outcome(folder) == outcome(fresh)


def test_a_network_without_state_is_not_replaced(
    tmp_path: Path, old_and_fresh: tuple[Path, Path, Path], other_settings: Settings
) -> None:
    """A network without a checkpoint is replaced only with --restart."""
    table, old, _ = old_and_fresh
    folder = tmp_path / "run"
    shutil.copytree(old, folder)
    shutil.rmtree(folder / "training-state")
    with pytest.raises(UserError, match=r"run: holds a network but not the state of its training; give another"):
        prepare(table, folder, other_settings, CPU)
    assert (folder / WEIGHTS).read_bytes() == (old / WEIGHTS).read_bytes()
    prepare(table, folder, other_settings, CPU, start=Start(restart=True)).train()
    assert load_model(folder).network.config.hidden == 9


def test_a_run_that_starts_over_and_stops_resumes(small_table: Path, tmp_path: Path, tiny_settings: Settings) -> None:
    folder = tmp_path / "run"
    train(small_table, folder, tiny_settings, stop_after=11)
    # --restart does not need the old run's checkpoint.
    (folder / "training-state/checkpoint.safetensors").unlink()
    other = replace(tiny_settings, training=replace(tiny_settings.training, seed=2))
    restarted = prepare(small_table, folder, other, CPU, start=Start(restart=True))
    assert run_until(restarted, 3).progress.update == 3
    assert prepare(small_table, folder, other, CPU).progress.update == 3
    with pytest.raises(UserError, match=r"run: holds a run with another seed \(2, now 1\); give the same to resume it"):
        prepare(small_table, folder, tiny_settings, CPU)
    train(small_table, folder, other)
    train(small_table, tmp_path / "fresh", other)
    assert outcome(folder) == outcome(tmp_path / "fresh")
