"""The training loop: updates, evaluations, selection of weights and stopping."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from phrasescore.device import choose_device
from phrasescore.errors import UserError
from phrasescore.model_files import WEIGHTS
from phrasescore.model_folder import load_model
from phrasescore.nn import softmax
from phrasescore.training import loop
from phrasescore.training.batches import PairLoss
from phrasescore.training.checkpoint import TrainingProgress
from phrasescore.training.loop import Callbacks, Evaluation
from phrasescore.training.run import prepare
from phrasescore.training.settings import Settings
from phrasescore.training.training_config import Budget, Schedule
from tests.no_numbers import Reads
from tests.training.runs import CPU, KilledError, die_in, metrics, outcome, run_until, train


@pytest.mark.parametrize("optimiser", ["adam", "adadelta"])
def test_updates_ask_for_no_number_between_looks_at_the_loss(
    small_table: Path, tmp_path: Path, tiny_settings: Settings, monkeypatch: pytest.MonkeyPatch, optimiser: str
) -> None:
    """Updates do not synchronise with the device between two readings of the loss.

    On a GPU each synchronisation would wait. The rows that the softmax recomputes there are tested in
    `test_pair_tasks.py`.
    """
    monkeypatch.setattr(softmax, "_large", lambda log_Z_A: log_Z_A.topk(1).indices)
    training = replace(tiny_settings.training, optimiser=optimiser, clip=1.0)
    trainer = prepare(small_table, tmp_path / "run", replace(tiny_settings, training=training), CPU)
    batches = itertools.cycle(trainer.task.batches(0))
    with Reads() as reads:
        for update in range(1, 2 * loop._LOOK_EVERY + 1):
            trainer._timed_update(next(batches))
            assert len(reads.names) == update // loop._LOOK_EVERY
    trainer.folder.release()


def test_clipping_shortens_the_gradient_and_none_leaves_it(
    small_table: Path, tmp_path: Path, tiny_settings: Settings
) -> None:
    def length(clip: float) -> float:
        """Return the norm of the first update's gradient."""
        settings = replace(tiny_settings, training=replace(tiny_settings.training, clip=clip))
        gradients = train(small_table, tmp_path / str(clip), settings, stop_after=1).network.parameters()
        return float(
            torch.stack([parameter.grad.norm() for parameter in gradients if parameter.grad is not None]).norm()
        )

    whole = length(0.0)
    assert length(1e9) == whole
    assert length(whole / 10) == pytest.approx(whole / 10, rel=1e-4)


def test_each_update_of_each_seed_has_its_own_random_numbers(
    small_table: Path, tmp_path: Path, tiny_settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Compare random numbers, not seeds: PyTorch ignores a part of them on CPUs."""
    drawn = []

    def seeded(seed: int, set_seed: Callable[[int], torch.Generator] = torch.manual_seed) -> torch.Generator:
        generator = set_seed(seed)
        drawn.append(tuple(torch.rand(4).tolist()))
        return generator

    monkeypatch.setattr(torch, "manual_seed", seeded)
    for seed in (1, 2):
        settings = replace(tiny_settings, training=replace(tiny_settings.training, seed=seed))
        trainer = prepare(small_table, tmp_path / f"run{seed}", settings, CPU)
        run_until(trainer, 5)
    assert len(set(drawn)) == len(drawn) >= 10


@pytest.mark.parametrize("schedule", ["constant", "linear", "cosine"])
def test_the_learning_rate_follows_the_schedule(
    small_table: Path, tmp_path: Path, tiny_settings: Settings, schedule: Schedule
) -> None:
    """The learning rate follows the schedule from the warm-up to the end of the budget."""
    config = replace(tiny_settings.training, schedule=schedule, warmup_updates=15)
    updates = train(small_table, tmp_path / "run", replace(tiny_settings, training=config)).progress.update
    rates = {record["update"]: record["learning_rate"] for record in metrics(tmp_path / "run")}
    budget = Budget(config, updates // 2)
    assert rates == {
        update: pytest.approx(budget.learning_rate(TrainingProgress(update - 1, *divmod(update - 1, updates // 2))))
        for update in (10, 20, 30, 34)
    }


def test_training_with_16_bit_products(small_table: Path, tmp_path: Path, tiny_settings: Settings) -> None:
    """In 16-bit precision the weights stay 32-bit and the loss falls as in 32-bit precision.

    A resumed run equals an uninterrupted one.
    """
    device = choose_device("cpu", "bf16")
    train(small_table, tmp_path / "parts", tiny_settings, stop_after=17, device=device)
    for folder in ("parts", "whole"):
        train(small_table, tmp_path / folder, tiny_settings, device=device)
    train(small_table, tmp_path / "precise", tiny_settings)
    assert {tensor.dtype for tensor in load_file(tmp_path / "whole" / WEIGHTS).values()} == {torch.float32}
    assert outcome(tmp_path / "parts") == outcome(tmp_path / "whole")
    losses, precise = (
        [record["held_out"]["per_pair"] for record in metrics(tmp_path / folder)] for folder in ("whole", "precise")
    )
    assert all(later < earlier for earlier, later in pairwise(losses))
    assert losses == pytest.approx(precise, rel=0.01)
    assert losses != precise


def test_the_recurrent_network_is_trained_with_16_bit_products(
    small_table: Path, tmp_path: Path, tiny_settings: Settings
) -> None:
    """16-bit precision applies to the recurrent network as well as to its softmax."""
    trainer = prepare(small_table, tmp_path / "run", tiny_settings, choose_device("cpu", "bf16"))
    seen = []
    trainer.network.get_submodule("encoder.summary").register_forward_hook(
        lambda module, given, product: seen.append(product.dtype) if module.training else None
    )
    trainer.train()
    assert seen == [torch.bfloat16] * trainer.progress.update


def test_the_best_weights_are_kept_and_patience_ends_the_run(
    small_table: Path, tmp_path: Path, tiny_settings: Settings
) -> None:
    training = replace(tiny_settings.training, learning_rate=0.5, epochs=1000, patience=3, schedule="constant")
    seen: list[Evaluation] = []
    trainer = prepare(small_table, tmp_path / "run", replace(tiny_settings, training=training), CPU)
    trainer.callbacks = Callbacks(on_evaluation=seen.append)
    progress = trainer.train()
    assert progress.finished == "the measured loss no longer falls"
    losses = [evaluation.held_out.per_example for evaluation in seen if evaluation.held_out]
    assert progress.best_loss == min(losses)
    assert losses[-4] == min(losses)
    assert [evaluation.best for evaluation in seen[-3:]] == [False] * 3
    assert seen[-4].update == progress.best_update


def test_the_validation_loss_decides_if_there_is_one(
    small_table: Path, tmp_path: Path, tiny_settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    trainer = prepare(small_table, tmp_path / "run", tiny_settings, CPU, validation=small_table)
    losses = iter([PairLoss(5.0, 1.0), PairLoss(3.0, 1.0), PairLoss(4.0, 1.0), PairLoss(3.0, 1.0)])
    held_out = PairLoss(1.0, 1.0)
    monkeypatch.setattr(
        type(trainer.task), "measure", lambda task, pairs: next(losses) if pairs is task.validation else held_out
    )
    progress = trainer.train()
    assert [record["best"] for record in metrics(tmp_path / "run")] == [True, True, False, False]
    assert (progress.best_loss, progress.best_update) == (3.0, 20)


def test_a_budget_in_minutes_ends_the_run(small_table: Path, tmp_path: Path, tiny_settings: Settings) -> None:
    """The time budget ends the run; it is so small that one update exceeds it."""
    config = replace(tiny_settings.training, epochs=None, max_minutes=2.0, max_updates=5)
    trainer = prepare(small_table, tmp_path / "run", replace(tiny_settings, training=config), CPU)
    trainer.progress.seconds = 60.0
    assert trainer.budget.spent(trainer.progress) == 0.5
    trainer.progress.seconds = 120 - 1e-6
    progress = trainer.train()
    assert (progress.finished, progress.update) == ("the budget is spent", 1)


def test_the_state_is_saved_between_evaluations(
    small_table: Path, tmp_path: Path, tiny_settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    training = replace(tiny_settings.training, evaluate_every=0)
    settings = replace(tiny_settings, training=training)
    train(small_table, tmp_path / "whole", settings)
    trainer = prepare(small_table, tmp_path / "killed", settings, CPU)
    with monkeypatch.context() as patched:
        patched.setattr(loop, "_SAVE_SECONDS", 0.0)
        die_in(patched, trainer, "_evaluate_and_save")
        with pytest.raises(KilledError):
            trainer.train()
    resumed = prepare(small_table, tmp_path / "killed", settings, CPU)
    assert resumed.progress.update == trainer.task.batches_per_epoch - 1
    resumed.train()
    assert outcome(tmp_path / "killed") == outcome(tmp_path / "whole")


def weights(folder: Path) -> dict[str, torch.Tensor]:
    return dict(load_model(folder).network.state_dict())


def test_a_loss_that_is_no_number_stops_the_run(small_table: Path, tmp_path: Path, tiny_settings: Settings) -> None:
    trainer = prepare(small_table, tmp_path / "run", tiny_settings, CPU)

    def spoil() -> bool:
        if trainer.progress.update == 15:
            with torch.no_grad():
                trainer.task.network.softmax.words.weight.fill_(float("nan"))
        return False

    trainer.callbacks = Callbacks(should_stop=spoil)
    with pytest.raises(UserError, match="update 20: the loss is not a number; the weights of update 10 are kept"):
        trainer.train()
    assert all(bool(torch.isfinite(tensor).all()) for tensor in weights(tmp_path / "run").values())


def test_gradients_that_are_no_numbers_do_not_reach_the_weights_kept(
    small_table: Path, tmp_path: Path, tiny_settings: Settings
) -> None:
    """NaN gradients do not reach the saved weights.

    The last update before an evaluation fails, while its loss is still finite.
    """
    trainer = prepare(small_table, tmp_path / "run", tiny_settings, CPU)
    parameter = trainer.task.network.softmax.words.weight
    parameter.register_hook(lambda gradient: gradient * float("nan") if trainer.progress.update == 19 else gradient)
    with pytest.raises(UserError, match="the loss is not a number; the weights of update 10 are kept"):
        trainer.train()
    assert all(bool(torch.isfinite(tensor).all()) for tensor in weights(tmp_path / "run").values())
