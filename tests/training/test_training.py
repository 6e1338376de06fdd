from __future__ import annotations

import gc
import gzip
import itertools
import json
import math
import random
import shutil
import signal
import subprocess
import sys
import time
from dataclasses import asdict, replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file

import phrasescore
from phrasescore.device import Device, choose_device
from phrasescore.errors import UsageError, UserError
from phrasescore.model_folder import METRICS, WEIGHTS, load_model
from phrasescore.nn import softmax
from phrasescore.nn.architecture import ModelConfig
from phrasescore.nn.batch import PairBatch
from phrasescore.pairs import DataConfig
from phrasescore.scoring.engine import Scorer
from phrasescore.tensor_file import open_tensors, write_tensors
from phrasescore.training import loop, run, run_state
from phrasescore.training.budget import Budget
from phrasescore.training.checkpoint import Progress, open_checkpoint
from phrasescore.training.evaluation import PairLoss
from phrasescore.training.loop import Evaluation, Trainer, Watcher
from phrasescore.training.optimisers import make_optimiser
from phrasescore.training.phrase_pairs import PhrasePairTask
from phrasescore.training.run import prepare
from phrasescore.training.run_folder import RunFolder
from phrasescore.training.settings import Settings
from phrasescore.training.start import Start
from phrasescore.training.training_config import Schedule, TrainingConfig
from phrasescore.vocabulary import Vocabulary
from tests.cli import running
from tests.conftest import MINI, TINY
from tests.no_numbers import Reads

CPU = choose_device("cpu", "fp32")


def train(
    table: Path, folder: Path, settings: Settings, stop_after: int | None = None, device: Device = CPU
) -> Trainer[PhrasePairTask]:
    trainer, _ = prepare(table, folder, settings, device)
    trainer.watcher = Watcher(should_stop=lambda: trainer.progress.update == stop_after)
    trainer.train()
    return trainer


def weights(folder: Path) -> dict[str, torch.Tensor]:
    return dict(load_model(folder).network.state_dict())


def metrics(folder: Path) -> list[dict[str, Any]]:
    records = [json.loads(line) for line in (folder / METRICS).read_text().splitlines()]
    for record in records:
        del record["seconds"], record["pairs_per_second"]
    return records


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
    assert (tmp_path / "parts" / WEIGHTS).read_bytes() == (tmp_path / "whole" / WEIGHTS).read_bytes()
    assert metrics(tmp_path / "parts") == metrics(tmp_path / "whole")
    assert [record["update"] for record in metrics(tmp_path / "whole")] == [10, 20, 30, 34]


@pytest.mark.parametrize("optimiser", ["adam", "adadelta"])
def test_updates_ask_for_no_number_between_looks_at_the_loss(
    small_table: Path, tmp_path: Path, tiny_settings: Settings, monkeypatch: pytest.MonkeyPatch, optimiser: str
) -> None:
    """On a GPU each would wait for it; the softmax does other rows again there (`tests/training/test_pair_task.py`)."""
    monkeypatch.setattr(softmax, "_large", lambda log_Z_A: log_Z_A.topk(1).indices)
    training = replace(tiny_settings.training, optimiser=optimiser, clip=1.0)
    trainer, _ = prepare(small_table, tmp_path / "run", replace(tiny_settings, training=training), CPU)
    batches = itertools.cycle(trainer.task.batches(0))
    with Reads() as reads:
        for update in range(1, 2 * loop._LOOK_EVERY + 1):
            trainer._timed_update(next(batches))
            assert len(reads.names) == update // loop._LOOK_EVERY
    trainer.folder.release()


def test_time_and_patience_go_on_where_a_run_stopped(
    small_table: Path, tmp_path: Path, tiny_settings: Settings
) -> None:
    stopped = train(small_table, tmp_path / "run", tiny_settings, stop_after=13)
    stopped.progress.evaluations_without_gain = 3
    stopped.state.save()
    resumed, _ = prepare(small_table, tmp_path / "run", tiny_settings, CPU)
    assert resumed.progress.seconds == stopped.progress.seconds > 0
    assert resumed.progress.evaluations_without_gain == 3


def test_a_run_goes_on_with_another_budget(small_table: Path, tmp_path: Path) -> None:
    """And with what follows from the budget, which a default run leaves to the size of the table."""
    options: dict[str, Any] = {"hidden": 8, "embedding": 5, "output_rank": 3, "device": "cpu"}
    phrasescore.train(small_table, tmp_path / "run", **options)
    before = len(metrics(tmp_path / "run"))
    phrasescore.train(small_table, tmp_path / "run", **options, max_updates=40, evaluate_every=40)
    updates = [record["update"] for record in metrics(tmp_path / "run")]
    assert updates[before:] == [40]


def test_training_with_16_bit_products(small_table: Path, tmp_path: Path, tiny_settings: Settings) -> None:
    """The weights stay 32-bit, the loss falls as with 32-bit products, and a resumed run equals one never stopped."""
    device = choose_device("cpu", "bf16")
    train(small_table, tmp_path / "parts", tiny_settings, stop_after=17, device=device)
    for folder in ("parts", "whole"):
        train(small_table, tmp_path / folder, tiny_settings, device=device)
    train(small_table, tmp_path / "precise", tiny_settings)
    assert {tensor.dtype for tensor in load_file(tmp_path / "whole" / WEIGHTS).values()} == {torch.float32}
    assert (tmp_path / "parts" / WEIGHTS).read_bytes() == (tmp_path / "whole" / WEIGHTS).read_bytes()
    assert metrics(tmp_path / "parts") == metrics(tmp_path / "whole")
    losses, precise = (
        [record["held_out"]["per_pair"] for record in metrics(tmp_path / folder)] for folder in ("whole", "precise")
    )
    assert all(later < earlier for earlier, later in pairwise(losses))
    assert losses == pytest.approx(precise, rel=0.01)
    assert losses != precise


def test_the_recurrent_network_is_trained_with_16_bit_products(
    small_table: Path, tmp_path: Path, tiny_settings: Settings
) -> None:
    """Not its softmax alone."""
    trainer, _ = prepare(small_table, tmp_path / "run", tiny_settings, choose_device("cpu", "bf16"))
    seen = []
    trainer.network.get_submodule("encoder.summary").register_forward_hook(
        lambda module, given, product: seen.append(product.dtype) if module.training else None
    )
    trainer.train()
    assert seen == [torch.bfloat16] * trainer.progress.update


def test_a_killed_run_resumes_to_the_same_weights(small_table: Path, tmp_path: Path, tiny_settings: Settings) -> None:
    """Kill -9 in the middle; the run goes on from its last checkpoint."""
    options = "--hidden 8 --embedding 5 --output-rank 3 --batch-size 16 --epochs 6 --evaluate-every 25"
    command = ["train", str(small_table), "--device", "cpu", *options.split(), "-q", "-o"]
    assert running.run(*command, tmp_path / "whole").returncode == 0
    for attempt in range(2):
        process = subprocess.Popen(
            [sys.executable, "-m", "phrasescore", *command, tmp_path / "killed"], env=running.ENVIRONMENT
        )
        state = tmp_path / "killed" / "training-state" / "checkpoint.safetensors"
        before = state.stat().st_mtime_ns if state.exists() else 0
        while process.poll() is None and (state.stat().st_mtime_ns if state.exists() else 0) == before:
            time.sleep(0.01)
        time.sleep(attempt / 20)
        process.send_signal(signal.SIGKILL)
        assert process.wait() == -signal.SIGKILL
    assert running.run(*command, tmp_path / "killed").returncode == 0
    assert (tmp_path / "killed" / WEIGHTS).read_bytes() == (tmp_path / "whole" / WEIGHTS).read_bytes()
    assert metrics(tmp_path / "killed") == metrics(tmp_path / "whole")
    assert not list((tmp_path / "killed").rglob("*.ids"))


class KilledError(Exception):
    """Stands for a kill, which no handler sees."""


def killing(*arguments: object) -> None:
    raise KilledError


def test_the_state_is_saved_between_evaluations(
    small_table: Path, tmp_path: Path, tiny_settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    training = replace(tiny_settings.training, evaluate_every=0)
    settings = replace(tiny_settings, training=training)
    train(small_table, tmp_path / "whole", settings)
    trainer, _ = prepare(small_table, tmp_path / "killed", settings, CPU)
    with monkeypatch.context() as patched:
        patched.setattr(loop, "_SAVE_SECONDS", 0.0)
        patched.setattr(trainer, "_evaluate_and_save", killing)
        with pytest.raises(KilledError):
            trainer.train()
    resumed = prepare(small_table, tmp_path / "killed", settings, CPU)[0]
    assert resumed.progress.update == trainer.task.batches_per_pass - 1
    resumed.train()
    assert (tmp_path / "killed" / WEIGHTS).read_bytes() == (tmp_path / "whole" / WEIGHTS).read_bytes()
    assert metrics(tmp_path / "killed") == metrics(tmp_path / "whole")


@pytest.mark.parametrize("place", ["save_weights", "save"])
def test_a_kill_does_not_part_the_weights_from_what_is_known_of_them(
    small_table: Path, tmp_path: Path, tiny_settings: Settings, monkeypatch: pytest.MonkeyPatch, place: str
) -> None:
    """Between the two files that the evaluation after update 20 writes; a stop shows what is there."""
    trainer, _ = prepare(small_table, tmp_path / "run", tiny_settings, CPU)
    trainer.watcher = Watcher(should_stop=lambda: trainer.progress.update == 15)
    trainer.train()
    trainer, _ = prepare(small_table, tmp_path / "run", tiny_settings, CPU)
    with monkeypatch.context() as patched:
        patched.setattr(trainer.state, place, killing)
        with pytest.raises(KilledError):
            trainer.train()
    assert trainer.progress.best_update == 20
    resumed, _ = prepare(small_table, tmp_path / "run", tiny_settings, CPU)
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


def test_a_finished_run_has_nothing_left_to_do(small_table: Path, tmp_path: Path, tiny_settings: Settings) -> None:
    train(small_table, tmp_path / "run", tiny_settings)
    before = (tmp_path / "run" / METRICS).read_bytes()
    again = train(small_table, tmp_path / "run", tiny_settings)
    assert again.progress.finished == "the budget is spent"
    assert (tmp_path / "run" / METRICS).read_bytes() == before


def test_a_budget_in_minutes_ends_the_run(small_table: Path, tmp_path: Path, tiny_settings: Settings) -> None:
    """An update takes more than a microsecond."""
    config = replace(tiny_settings.training, epochs=None, max_minutes=2.0, max_updates=5)
    trainer, _ = prepare(small_table, tmp_path / "run", replace(tiny_settings, training=config), CPU)
    trainer.progress.seconds = 60.0
    assert trainer.budget.spent(trainer.progress) == 0.5
    trainer.progress.seconds = 120 - 1e-6
    progress = trainer.train()
    assert (progress.finished, progress.update) == ("the budget is spent", 1)


def test_restart(small_table: Path, tmp_path: Path, tiny_settings: Settings) -> None:
    train(small_table, tmp_path / "run", tiny_settings, stop_after=15)
    trainer, _ = prepare(small_table, tmp_path / "run", tiny_settings, CPU, start=Start(restart=True))
    assert trainer.progress.update == 0
    trainer.train()
    train(small_table, tmp_path / "fresh", tiny_settings)
    assert (tmp_path / "run" / WEIGHTS).read_bytes() == (tmp_path / "fresh" / WEIGHTS).read_bytes()
    assert metrics(tmp_path / "run") == metrics(tmp_path / "fresh")
    assert [record["update"] for record in metrics(tmp_path / "run")] == [10, 20, 30, 34]


def die_in(patched: pytest.MonkeyPatch, owner: Any, name: str, after: int = 0) -> None:
    """Let a function end the run when it is called once more than so many times."""
    whole, calls = getattr(owner, name), itertools.count()

    def dying(*arguments: Any, **options: Any) -> Any:
        if next(calls) == after:
            raise KilledError
        return whole(*arguments, **options)

    patched.setattr(owner, name, dying)


@pytest.fixture(scope="module")
def other_settings() -> Settings:
    """Another network, with other words."""
    model = replace(TINY, hidden=9)
    training = TrainingConfig(batch_size=32, epochs=1, evaluate_every=8, warmup_updates=5, learning_rate=5e-3)
    return Settings(model, DataConfig(held_out=0.1, source_vocabulary=9), training)


def has_learnt(checkpoint: Path) -> bool:
    """Whether a state is that of a run that has made updates."""
    if not checkpoint.exists():
        return False
    with open_checkpoint(checkpoint) as state:
        return state.progress.update > 0


@pytest.fixture(scope="module")
def old_and_fresh(tmp_path_factory: pytest.TempPathFactory, other_settings: Settings) -> tuple[Path, Path, Path]:
    """A table, a folder with a network, and one with that of the other settings."""
    root = tmp_path_factory.mktemp("runs")
    lines = gzip.decompress((MINI / "phrase-table.gz").read_bytes()).splitlines(keepends=True)[:600]
    (root / "table").write_bytes(b"".join(lines))
    training = replace(other_settings.training, max_updates=9)
    train(root / "table", root / "old", Settings(TINY, DataConfig(held_out=0.1), training))
    train(root / "table", root / "fresh", other_settings)
    return root / "table", root / "old", root / "fresh"


def names(folder: Path) -> set[Path]:
    return {path.relative_to(folder) for path in folder.rglob("*")}


@pytest.mark.parametrize(
    ("owner", "name", "after", "is_decided"),
    [
        (run, "save_description", 0, False),
        (Vocabulary, "save", 1, False),
        (run_state, "write_checkpoint", 0, False),
        (loop.Trainer, "_update", 5, False),
        (run_state, "write_checkpoint", 1, False),
        (run_state, "save_weights", 0, False),
        (RunFolder, "replace", 0, False),
        (RunFolder, "_move", 1, True),
        (shutil, "rmtree", 2, True),
        (loop.Trainer, "_update", 10, True),
    ],
)
def test_a_run_that_starts_over_leaves_the_old_network_until_it_has_one(
    tmp_path: Path,
    old_and_fresh: tuple[Path, Path, Path],
    other_settings: Settings,
    monkeypatch: pytest.MonkeyPatch,
    owner: Any,
    name: str,
    after: int,
    is_decided: bool,
) -> None:
    """A kill at any moment leaves one of them, whole; what has begun goes on without --restart as if undisturbed."""
    table, old, fresh = old_and_fresh
    folder = tmp_path / "run"
    shutil.copytree(old, folder)
    with monkeypatch.context() as patched:
        die_in(patched, owner, name, after)
        with pytest.raises(KilledError):
            prepare(table, folder, other_settings, CPU, start=Start(restart=True))[0].train()
    assert load_model(folder).network.config.hidden == (9 if is_decided else 8)
    if not is_decided:
        assert all((folder / path.name).read_bytes() == path.read_bytes() for path in old.iterdir() if path.is_file())
    if is_decided or has_learnt(folder / "training-state/restarted/training-state/checkpoint.safetensors"):
        train(table, folder, other_settings)
        assert (folder / WEIGHTS).read_bytes() == (fresh / WEIGHTS).read_bytes()
        assert metrics(folder) == metrics(fresh)
        assert names(folder) == names(fresh)
    else:
        # Nothing of the new run is left.
        with pytest.raises(UserError, match=r"holds a run with another hidden \(8, now 9\)"):
            prepare(table, folder, other_settings, CPU)
        assert names(folder) == names(old)


def test_a_run_that_starts_over_and_stops_resumes_before_it_has_weights(
    small_table: Path, tmp_path: Path, tiny_settings: Settings
) -> None:
    folder = tmp_path / "run"
    train(small_table, folder, tiny_settings, stop_after=11)
    # Who starts over does not need the state of the old run.
    (folder / "training-state/checkpoint.safetensors").unlink()
    before = (folder / WEIGHTS).read_bytes()
    other = replace(tiny_settings, training=replace(tiny_settings.training, seed=2))
    trainer, _ = prepare(small_table, folder, other, CPU, start=Start(restart=True))
    trainer.watcher = Watcher(should_stop=lambda: trainer.progress.update == 3)
    assert trainer.train().update == 3
    assert (folder / WEIGHTS).read_bytes() == before
    assert prepare(small_table, folder, other, CPU)[0].progress.update == 3
    with pytest.raises(UserError, match=r"run: holds a run with another seed \(2, now 1\); give the same to resume it"):
        prepare(small_table, folder, tiny_settings, CPU)
    train(small_table, folder, other)
    train(small_table, tmp_path / "fresh", other)
    assert (folder / WEIGHTS).read_bytes() == (tmp_path / "fresh" / WEIGHTS).read_bytes()


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


def test_a_damaged_state_of_training_is_one_sentence(
    small_table: Path, tmp_path: Path, tiny_settings: Settings
) -> None:
    folder = tmp_path / "run"
    train(small_table, folder, tiny_settings)
    before, path = contents(folder), folder / METRICS
    records = path.read_bytes()
    path.write_bytes(records.replace(b"true", b"fals", 1))
    with pytest.raises(
        UserError, match=r"metrics\.jsonl: is damaged; copy it again, or remove it to go on without its"
    ):
        prepare(small_table, folder, tiny_settings, CPU)
    # What a kill has left behind the last state is dropped.
    path.write_bytes(records + b'{"update": 3')
    prepare(small_table, folder, tiny_settings, CPU)
    assert contents(folder) == before
    path.unlink()
    prepare(small_table, folder, tiny_settings, CPU)
    # Weights are no state.
    shutil.copy(folder / WEIGHTS, folder / "training-state/checkpoint.safetensors")
    with pytest.raises(UserError, match=r"checkpoint\.safetensors: is damaged"):
        prepare(small_table, folder, tiny_settings, CPU)


def test_a_full_disk_is_blamed_on_the_file_that_grows(
    small_table: Path, tmp_path: Path, tiny_settings: Settings
) -> None:
    trainer, _ = prepare(small_table, tmp_path / "run", tiny_settings, CPU)
    (tmp_path / "run" / METRICS).unlink(missing_ok=True)
    (tmp_path / "run" / METRICS).symlink_to("/dev/full")
    with pytest.raises(UserError, match=rf"{METRICS}: cannot be written \(No space left on device\); free space or"):
        trainer.train()


def test_a_damaged_state_of_training_does_not_cost_the_weights(
    small_table: Path, tmp_path: Path, tiny_settings: Settings
) -> None:
    """Its network would be that of the best update; a bit in it, in the optimiser or in what is known of the run."""
    folder = tmp_path / "run"
    train(small_table, folder, tiny_settings)
    path = folder / "training-state/checkpoint.safetensors"
    content = path.read_bytes()
    for place in (0, 20, 60, content.index(b"best_loss") + 20, len(content) // 2, len(content) - 1):
        path.write_bytes(content[:place] + bytes([content[place] ^ 4]) + content[place + 1 :])
        before = contents(folder)
        with pytest.raises(
            UserError, match=rf"^{path}: is damaged, so .*; copy it again, or start over with --restart"
        ):
            prepare(small_table, folder, tiny_settings, CPU)
        assert contents(folder) == before
    assert prepare(small_table, folder, tiny_settings, CPU, start=Start(restart=True))[0].progress.update == 0


@pytest.mark.parametrize(
    "changes",
    [
        {"update": "7"},
        {"update": -1},
        {"batch": 10**30},
        {"seconds": 10**400},
        {"seconds": float("nan")},
        {"best_loss": []},
        {"other": 5},
    ],
)
def test_a_state_that_no_run_has_written(
    small_table: Path, tmp_path: Path, tiny_settings: Settings, changes: dict[str, Any]
) -> None:
    """Older ones have no digest, and a stranger's may have a right one."""
    folder = tmp_path / "run"
    train(small_table, folder, tiny_settings, stop_after=1)
    path = folder / "training-state/checkpoint.safetensors"
    with open_tensors(path) as file:
        facts, tensors = file.facts, file.read()
    write_tensors(path, tensors, {**facts, "progress": {**facts["progress"], **changes}})
    with pytest.raises(UserError, match=r"checkpoint\.safetensors: is damaged"):
        prepare(small_table, folder, tiny_settings, CPU)


def test_a_state_of_another_network_is_not_read(small_table: Path, tmp_path: Path, tiny_settings: Settings) -> None:
    folder = tmp_path / "run"
    train(small_table, folder, tiny_settings, stop_after=1)
    path = folder / "training-state/checkpoint.safetensors"
    with open_tensors(path) as file:
        facts, tensors = file.facts, file.read()
    many = {"optimiser.0.history": torch.zeros(1_000_000)}
    for changes in (many, {"optimiser.what": torch.zeros(1)}, {"network.other": torch.zeros(1)}):
        write_tensors(path, {**tensors, **changes}, facts)
        with pytest.raises(UserError, match=r"checkpoint\.safetensors: is damaged"):
            prepare(small_table, folder, tiny_settings, CPU)


def test_a_run_without_an_update_makes_room_for_another(
    small_table: Path, tmp_path: Path, tiny_settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*arguments: Any) -> None:
        raise RuntimeError("at the first update")

    trainer, _ = prepare(small_table, tmp_path / "run", tiny_settings, CPU)
    monkeypatch.setattr(trainer.network, "forward", fail)
    other = replace(tiny_settings, training=replace(tiny_settings.training, learning_rate=0.003))
    with pytest.raises(RuntimeError, match="at the first update"):
        trainer.train()
    assert train(small_table, tmp_path / "run", other).progress.update == 34


def test_a_folder_that_cannot_be_made(small_table: Path, tiny_settings: Settings) -> None:
    with pytest.raises(UserError, match=r"^/proc/rnn: cannot be made \(.*\); check the folder and its rights"):
        prepare(small_table, Path("/proc/rnn"), tiny_settings, CPU)


def test_a_loss_that_is_no_number_stops_the_run(small_table: Path, tmp_path: Path, tiny_settings: Settings) -> None:
    trainer, _ = prepare(small_table, tmp_path / "run", tiny_settings, CPU)

    def spoil() -> bool:
        if trainer.progress.update == 15:
            with torch.no_grad():
                trainer.task.network.softmax.words.weight.fill_(float("nan"))
        return False

    trainer.watcher = Watcher(should_stop=spoil)
    with pytest.raises(UserError, match="update 20: the loss is not a number; the weights of update 10 are kept"):
        trainer.train()
    assert all(bool(torch.isfinite(tensor).all()) for tensor in weights(tmp_path / "run").values())


def test_gradients_that_are_no_numbers_do_not_reach_the_weights_kept(
    small_table: Path, tmp_path: Path, tiny_settings: Settings
) -> None:
    """The last update before an evaluation goes wrong: its loss was still a number."""
    trainer, _ = prepare(small_table, tmp_path / "run", tiny_settings, CPU)
    parameter = trainer.task.network.softmax.words.weight
    parameter.register_hook(  # type: ignore[no-untyped-call]
        lambda gradient: gradient * float("nan") if trainer.progress.update == 19 else gradient
    )
    with pytest.raises(UserError, match="the loss is not a number; the weights of update 10 are kept"):
        trainer.train()
    assert all(bool(torch.isfinite(tensor).all()) for tensor in weights(tmp_path / "run").values())


def contents(folder: Path) -> dict[str, bytes]:
    return {str(path): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.mark.parametrize("restart", [False, True])
def test_two_runs_do_not_share_a_folder(
    small_table: Path, tmp_path: Path, tiny_settings: Settings, restart: bool
) -> None:
    """Who comes second finds out before anything of the first one's is touched."""
    first, _ = prepare(small_table, tmp_path / "run", tiny_settings, CPU)
    other = replace(tiny_settings, data=DataConfig(source_vocabulary=5))

    def start_second() -> bool:
        if first.progress.update < 12:
            return False
        before = contents(tmp_path / "run")
        with pytest.raises(UserError, match="another run is training"):
            prepare(small_table, tmp_path / "run", other, CPU, start=Start(restart=restart))
        assert contents(tmp_path / "run") == before
        return True

    first.watcher = Watcher(should_stop=start_second)
    assert first.train().update == 12
    assert prepare(small_table, tmp_path / "run", tiny_settings, CPU)[0].progress.update == 12


def test_a_trainer_that_nobody_holds_gives_the_folder_back(
    small_table: Path, tmp_path: Path, tiny_settings: Settings
) -> None:
    prepare(small_table, tmp_path / "run", tiny_settings, CPU)
    gc.collect()
    assert train(small_table, tmp_path / "run", tiny_settings).progress.finished


def test_the_folder_says_how_and_on_what_it_was_trained(
    small_table: Path, tmp_path: Path, tiny_settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)

    def described(settings: Settings) -> dict[str, Any]:
        trainer, data = prepare(small_table.name, Path("run"), settings, CPU, Path(small_table.name))
        trainer.watcher = Watcher(should_stop=lambda: True)
        trainer.train()
        found: dict[str, Any] = json.loads(Path("run/config.json").read_bytes())
        assert found["training"]["digests"]["table"] == data.digest
        return found

    found = described(tiny_settings)
    assert found["data"] == json.loads(json.dumps(asdict(tiny_settings.data)))
    assert found["training"]["table"] == found["training"]["validation"] == str(small_table)
    assert found["training"]["digests"]["validation"] is not None
    assert (found["training"]["epochs"], found["training"]["device"]) == (2, "cpu fp32")
    longer = replace(tiny_settings, training=replace(tiny_settings.training, epochs=3))
    assert described(longer)["training"]["epochs"] == 3


def test_another_validation_table_does_not_resume(small_table: Path, tmp_path: Path, tiny_settings: Settings) -> None:
    """The lowest loss so far would be that on other pairs."""
    folder = tmp_path / "run"

    def resume(validation: Path | None) -> Trainer[PhrasePairTask]:
        trainer, _ = prepare(small_table, folder, tiny_settings, CPU, validation)
        trainer.watcher = Watcher(should_stop=lambda: True)
        trainer.train()
        return trainer

    resume(small_table)
    for other in (MINI / "phrase-table.gz", None):
        with pytest.raises(UserError, match="holds a run with other validation data; give the same"):
            resume(other)
    assert resume(small_table).progress.update == 2


def test_words_are_shared_where_they_are_the_same(small_table: Path, tmp_path: Path, tiny_settings: Settings) -> None:
    """Vocabularies of one size are not yet one vocabulary."""
    model, text = replace(tiny_settings.model, share_embeddings=True), tmp_path / "both"
    text.write_bytes((MINI / "train.en").read_bytes() + (MINI / "train.fr").read_bytes())
    sizes = {"source_vocabulary": 30, "target_vocabulary": 30}
    with pytest.raises(UserError, match=r"--share-embeddings: needs the same words on both sides.* as --source-corpus"):
        prepare(small_table, tmp_path / "a", replace(tiny_settings, model=model, data=DataConfig(**sizes)), CPU)  # type: ignore[arg-type]
    data = DataConfig(**sizes, source_corpus=text, target_corpus=text)  # type: ignore[arg-type]
    trainer, read = prepare(small_table, tmp_path / "b", replace(tiny_settings, model=model, data=data), CPU)
    assert read.source_vocabulary.words == read.target_vocabulary.words
    assert trainer.network.decoder.embedding is trainer.network.encoder.embedding  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"input_feeding": True}, "input feeding gives h~"),
        ({"attention": "dot", "directions": "both"}, "attention `dot` compares states"),
        ({"attention": "concat", "readout": "state"}, "give --readout attentional or state-context, or --attention"),
        ({"attention_order": "before"}, "there is none; give --attention, or leave --attention-order out"),
        (
            {"annotations": "bridged", "bridge": "both", "directions": "both"},
            "there is none; give --attention, or leave --annotations out",
        ),
        ({"share_units": True}, "shared units must be the same"),
        ({"encoder_unit": "gruu"}, "there is no unit `gruu`; did you mean"),
    ],
)
def test_forms_that_do_not_go_together_are_told_of_before_the_reading(
    tmp_path: Path, tiny_settings: Settings, changes: dict[str, Any], message: str
) -> None:
    settings = replace(tiny_settings, model=replace(tiny_settings.model, **changes))
    with pytest.raises(UserError, match=message):
        prepare(tmp_path / "nowhere.gz", tmp_path / "run", settings, CPU)
    assert not (tmp_path / "run").exists()


def test_a_faulty_table_does_not_cost_the_old_model(small_table: Path, tmp_path: Path, tiny_settings: Settings) -> None:
    train(small_table, tmp_path / "run", tiny_settings)
    before = contents(tmp_path / "run")
    (tmp_path / "faulty").write_bytes(b"broken\n")
    with pytest.raises(UserError, match="line 1"):
        prepare(tmp_path / "faulty", tmp_path / "run", tiny_settings, CPU, start=Start(restart=True))
    assert contents(tmp_path / "run") == before


def test_the_best_weights_are_kept_and_patience_ends_the_run(
    small_table: Path, tmp_path: Path, tiny_settings: Settings
) -> None:
    training = replace(tiny_settings.training, learning_rate=0.5, epochs=1000, patience=3, schedule="constant")
    seen: list[Evaluation] = []
    trainer, _ = prepare(small_table, tmp_path / "run", replace(tiny_settings, training=training), CPU)
    trainer.watcher = Watcher(on_evaluation=seen.append)
    progress = trainer.train()
    assert progress.finished == "the measured loss no longer falls"
    losses = [evaluation.held_out.per_example for evaluation in seen if evaluation.held_out]
    assert progress.best_loss == min(losses)
    assert losses[-4] == min(losses)
    assert [evaluation.best for evaluation in seen[-3:]] == [False] * 3
    assert seen[-4].update == progress.best_update


def test_validation_is_measured_on_other_pairs(small_table: Path, tmp_path: Path, tiny_settings: Settings) -> None:
    trainer, _ = prepare(small_table, tmp_path / "run", tiny_settings, CPU, validation=MINI / "phrase-table.gz")
    trainer.train()
    last = metrics(tmp_path / "run")[-1]
    assert last["held_out"] != last["validation"]
    assert trainer.task.validation is not None
    assert len(trainer.task.validation) == trainer.state.run["held_out_limit"] == 10_000


def test_a_validation_table_of_which_no_pairs_are_taken_is_refused(tmp_path: Path, tiny_settings: Settings) -> None:
    """Before anything is read."""
    settings = replace(tiny_settings, data=DataConfig(held_out_limit=0))
    with pytest.raises(UsageError, match="--held-out-limit: is the most pairs of --validation, too, and 0 leaves none"):
        prepare(tmp_path / "nowhere", tmp_path / "run", settings, CPU, validation=tmp_path / "nowhere")
    assert not (tmp_path / "run").exists()


def test_a_validation_table_needs_nothing_held_out(small_table: Path, tmp_path: Path, tiny_settings: Settings) -> None:
    settings = replace(tiny_settings, data=DataConfig(held_out=0))
    trainer, _ = prepare(small_table, tmp_path / "run", settings, CPU, validation=small_table)
    trainer.train()
    assert {record["held_out"] for record in metrics(tmp_path / "run")} == {None}
    assert all(record["validation"] for record in metrics(tmp_path / "run"))


def test_the_validation_loss_decides_if_there_is_one(
    small_table: Path, tmp_path: Path, tiny_settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    trainer, _ = prepare(small_table, tmp_path / "run", tiny_settings, CPU, validation=small_table)
    losses = iter([PairLoss(5.0, 1.0), PairLoss(3.0, 1.0), PairLoss(4.0, 1.0), PairLoss(3.5, 1.0)])
    held_out = PairLoss(1.0, 1.0)
    monkeypatch.setattr(
        type(trainer.task), "measure", lambda task, pairs: next(losses) if pairs is task.validation else held_out
    )
    progress = trainer.train()
    assert [record["best"] for record in metrics(tmp_path / "run")] == [True, True, False, False]
    assert (progress.best_loss, progress.best_update) == (3.0, 20)


def test_adadelta_is_the_paper_s() -> None:
    """Accumulate the squared gradient, step with the old squared steps, then accumulate the squared step."""
    layer = torch.nn.Linear(1, 1, bias=False)
    optimiser = make_optimiser(layer, TrainingConfig(optimiser="adadelta", learning_rate=1.0))
    w, square_g, square_d = layer.weight.item(), 0.0, 0.0
    for g in (0.5, -2.0, 0.25):
        layer.weight.grad = torch.tensor([[g]])
        optimiser.step()
        square_g = 0.95 * square_g + 0.05 * g * g
        d = math.sqrt(square_d + 1e-6) / math.sqrt(square_g + 1e-6) * g
        square_d = 0.95 * square_d + 0.05 * d * d
        w -= d
        assert layer.weight.item() == pytest.approx(w, rel=1e-5)


def test_clipping_shortens_the_gradient_and_none_leaves_it(
    small_table: Path, tmp_path: Path, tiny_settings: Settings
) -> None:
    def length(clip: float) -> float:
        """Return how long the gradient of the first update is."""
        settings = replace(tiny_settings, training=replace(tiny_settings.training, clip=clip))
        gradients = train(small_table, tmp_path / str(clip), settings, stop_after=1).network.parameters()
        return float(
            torch.stack([parameter.grad.norm() for parameter in gradients if parameter.grad is not None]).norm()
        )

    whole = length(0.0)
    assert length(1e9) == whole
    assert length(whole / 10) == pytest.approx(whole / 10, rel=1e-4)


def test_each_update_drops_other_elements(small_table: Path, tmp_path: Path, tiny_settings: Settings) -> None:
    """The masks come from torch's global generator."""
    settings = replace(tiny_settings, model=replace(tiny_settings.model, dropout=0.5))
    trainer, _ = prepare(small_table, tmp_path / "run", settings, CPU)
    seeds = set()
    trainer.task.network.encoder.dropout.register_forward_hook(lambda *_: seeds.add(torch.initial_seed()))
    trainer.watcher = Watcher(should_stop=lambda: trainer.progress.update == 5)
    trainer.train()
    assert len(seeds) == 5


@pytest.mark.parametrize("schedule", ["constant", "linear", "cosine"])
def test_the_learning_rate_follows_the_schedule(
    small_table: Path, tmp_path: Path, tiny_settings: Settings, schedule: Schedule
) -> None:
    """The first evaluation is within the warm-up, the last at the end of the budget."""
    config = replace(tiny_settings.training, schedule=schedule, warmup_updates=15)
    updates = train(small_table, tmp_path / "run", replace(tiny_settings, training=config)).progress.update
    rates = {record["update"]: record["learning_rate"] for record in metrics(tmp_path / "run")}
    budget = Budget(config, updates // 2)
    assert rates == {
        update: pytest.approx(budget.learning_rate(Progress(update - 1, *divmod(update - 1, updates // 2))))
        for update in (10, 20, 30, 34)
    }


def test_weights_by_count_need_no_counts_of_the_validation_table(
    small_table: Path, tmp_path: Path, tiny_settings: Settings
) -> None:
    (tmp_path / "other").write_bytes(b"the ||| le ||| 1\n")
    settings = replace(tiny_settings, data=DataConfig(weight_by_count=True))
    trainer, _ = prepare(small_table, tmp_path / "run", settings, CPU, validation=tmp_path / "other")
    assert trainer.task.validation is not None
    assert trainer.task.measure(trainer.task.validation).per_pair > 0


def test_counts_weight_the_loss(tmp_path: Path, tiny_settings: Settings) -> None:
    """-sum w ln p / n, with ln p of each pair by itself."""
    counts = range(1, 21)
    lines = (f"{'a ' * count}b ||| c{' d' * count} ||| 1 ||| 0-0 ||| 20 20 {count}\n" for count in counts)
    (tmp_path / "table").write_text("".join(lines))
    training = replace(tiny_settings.training, warmup_updates=0)
    settings = replace(tiny_settings, data=DataConfig(weight_by_count=True, held_out=0), training=training)
    trainer, _ = prepare(tmp_path / "table", tmp_path / "run", settings, CPU)
    (examples,) = trainer.task.batches(0)
    with torch.inference_mode():
        found = trainer.task.loss(examples).mean.item()
        pairs = [trainer.task.pairs.take(examples[[row]]) for row in range(20)]
        log_probs = [trainer.network(PairBatch.apart(pair.source, pair.target)).sum().item() for pair in pairs]
    weights = (examples + 1) / np.mean(counts)
    weighted = -np.dot(weights, log_probs) / 20
    assert found == pytest.approx(weighted, rel=1e-5)
    assert found != pytest.approx(-sum(log_probs) / 20, rel=0.01)


def toy_table(path: Path, reverse: bool) -> Path:
    """Random strings over a small alphabet and their copies, forwards or backwards."""
    random.seed(4)
    lines: set[str] = set()
    while len(lines) < 8000:
        source = [random.choice("abcdefgh") for _ in range(random.randint(1, 5))]
        target = source[::-1] if reverse else source
        lines.add(f"{' '.join(source)} ||| {' '.join(target)} ||| 1\n")
    path.write_text("".join(sorted(lines)))
    return path


@pytest.mark.timeout(400)
@pytest.mark.parametrize("reverse", [False, True])
def test_copying_and_reversing_are_learnt(tmp_path: Path, reverse: bool) -> None:
    """Held-out strings of at most five letters: perplexity below 1.1 per symbol, and right beats wrong."""
    model = ModelConfig(hidden=96, embedding=24, maxout=48, output_rank=24, biases="all", initialisation="scaled")
    training = TrainingConfig(batch_size=64, learning_rate=8e-3, epochs=14, evaluate_every=500, warmup_updates=50)
    settings = Settings(model, DataConfig(held_out=0.05), training)
    train(toy_table(tmp_path / "toy", reverse), tmp_path / "run", settings)
    last = metrics(tmp_path / "run")[-1]["held_out"]
    assert isinstance(last, dict)
    assert math.exp(last["per_word"]) < 1.1
    scorer = Scorer(load_model(tmp_path / "run"), CPU)
    right, wrong = (b"h g f e", b"e f g h") if reverse else (b"e f g h", b"h g f e")
    scores = scorer.score_encoded(scorer.encode([b"e f g h", b"e f g h"], [right, wrong])).log_prob
    assert scores[0] > -0.5
    assert scores[1] < -5


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
