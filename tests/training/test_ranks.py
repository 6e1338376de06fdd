from __future__ import annotations

import multiprocessing
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from phrasescore.cli.running import run_command
from phrasescore.errors import UserError
from phrasescore.files.tensors import open_tensors
from phrasescore.lm.lm_settings import LmSettings, TextConfig
from phrasescore.lm.lm_training import prepare as prepare_lm
from phrasescore.model_files import TRAINING_STATE
from phrasescore.model_folder import load_model
from phrasescore.nn.architecture import NeuralLmConfig
from phrasescore.parallel_text import ParallelText, SentenceConfig
from phrasescore.training.loop import Callbacks, Start, Trainer
from phrasescore.training.ranks import ALONE, RankGroup, Ranks, joined
from phrasescore.training.run import prepare
from phrasescore.training.settings import Settings
from phrasescore.training.tasks import BatchLoss, Examples
from tests.conftest import MINI, TINY
from tests.training.runs import CPU, metrics, run_until


@dataclass(frozen=True)
class Run:
    """A training run for any number of processes."""

    folder: Path
    settings: Settings | LmSettings
    table: Path
    stop_after: int | None = None
    restart: bool = False

    def __call__(self, ranks: Ranks = ALONE) -> Trainer[Any]:
        return run_until(self._prepare(ranks), self.stop_after)

    def _prepare(self, ranks: Ranks) -> Trainer[Any]:
        if isinstance(self.settings, LmSettings):
            return prepare_lm(MINI / "train.en", self.folder, self.settings, CPU, start=Start(ranks=ranks))
        if self.settings.sentences is not None:
            text = ParallelText(MINI / "train.en", MINI / "train.fr")
            return prepare(text, self.folder, self.settings, CPU, start=Start(ranks=ranks))
        return prepare(self.table, self.folder, self.settings, CPU, start=Start(self.restart, ranks=ranks))


def start(rank: int, number: int, machines: int, meeting: Path, work: Callable[[Ranks], object]) -> None:
    """Run one of several processes, each of which writes its errors to a separate file."""
    os.dup2(os.open(meeting.with_suffix(f".{rank}"), os.O_WRONLY | os.O_CREAT), 2)
    os.environ["LOCAL_RANK"] = str(rank // machines)
    torch.set_default_dtype(torch.float64)

    def run() -> int:
        with joined(f"file://{meeting}?rank={rank}&world_size={number}") as group:
            work(group)
        return 0

    sys.exit(run_command("train", run))


def start_all(
    meeting: Path, work: Callable[[Ranks], object], number: int = 2, machines: int = 1
) -> tuple[list[int | None], list[str]]:
    """Return the exit codes and the error output of several processes."""
    context = multiprocessing.get_context("forkserver")
    # The fork server imports PyTorch, and what its optimisers import, once for all processes.
    context.set_forkserver_preload([__name__, "torch._dynamo"])
    processes = [context.Process(target=start, args=(rank, number, machines, meeting, work)) for rank in range(number)]
    for process in processes:
        process.start()
    for process in processes:
        process.join()
    said = [meeting.with_suffix(f".{rank}").read_text() for rank in range(number)]
    return [process.exitcode for process in processes], said


@dataclass(frozen=True)
class Runs:
    """Several training runs in sequence."""

    runs: list[Run]

    def __call__(self, ranks: Ranks) -> None:
        for run in self.runs:
            network = run(ranks).network
            if ranks.is_first:
                torch.save(gradients(network), run.folder / "gradients")


def gradients(network: torch.nn.Module) -> dict[str, torch.Tensor | None]:
    return {name: parameter.grad for name, parameter in network.named_parameters()}


def state(folder: Path) -> dict[str, torch.Tensor]:
    with open_tensors(folder / TRAINING_STATE / "checkpoint.safetensors") as file:
        return dict(file.read())


def losses(folder: Path) -> list[tuple[Any, ...]]:
    keys = ("update", "training_loss", "held_out", "validation")
    return [tuple(record[key] for key in keys) for record in metrics(folder)]


@pytest.mark.usefixtures("double_precision")
def test_several_processes_train_as_one_does(small_table: Path, tmp_path: Path, tiny_settings: Settings) -> None:
    """Several processes give the same gradients, weights, optimiser state and losses as one.

    Shares may be empty or differ in length, and runs may be resumed.
    """

    def training(**changes: Any) -> Settings:
        return replace(tiny_settings, training=replace(tiny_settings.training, **changes))

    some = training(epochs=None, max_updates=5, evaluate_every=3)
    words = replace(some.training, batch_size=64)
    kinds: dict[str, Settings | LmSettings] = {
        "whole": training(batch_size=33),
        "adadelta": replace(some, training=replace(some.training, optimiser="adadelta", clip=0.0)),
        "empty": replace(some, training=replace(some.training, batch_size=1)),
        "forcing": replace(some, training=replace(some.training, teacher_forcing=0.5)),
        "long": replace(some, training=replace(some.training, long_pairs=0.3)),
        "attention": replace(some, model=replace(TINY, summary=False, attention="concat"), sentences=SentenceConfig()),
        "words": LmSettings(NeuralLmConfig(4, 5, 8, 6, self_normalise=0.1), TextConfig(held_out=0.1), words),
    }
    resumed = Run(tmp_path / "several/resumed", kinds["whole"], small_table, stop_after=7)
    resumed()

    def run_of(name: str, place: str) -> Run:
        return Run(tmp_path / place / name, kinds[name], small_table)

    several = [run_of(name, "several") for name in kinds]
    codes, said = start_all(tmp_path / "meeting", Runs([*several, replace(resumed, stop_after=25)]))
    assert (codes, said) == ([0, 0], ["", ""])
    replace(resumed, stop_after=None)()
    for name in kinds:
        alone = run_of(name, "alone")()
        torch.testing.assert_close(
            torch.load(tmp_path / "several" / name / "gradients"), gradients(alone.network), rtol=0, atol=1e-9
        )
    for one, other in [*((name, name) for name in kinds), ("whole", "resumed")]:
        folders = tmp_path / "alone" / one, tmp_path / "several" / other
        torch.testing.assert_close(*map(state, folders), rtol=0, atol=1e-9)
        for (update, *expected), (at, *found) in zip(*map(losses, folders), strict=True):
            assert update == at
            assert found == [pytest.approx(value, abs=1e-9) for value in expected]
        assert sorted(path.name for path in folders[1].rglob("*") if path.name != "gradients") == sorted(
            path.name for path in folders[0].rglob("*")
        )


@dataclass(frozen=True)
class Failing:
    """A training run in which one rank fails or is killed."""

    run: Run
    number: int
    fault: str | None

    def __call__(self, ranks: Ranks) -> None:
        run = self.run
        if self.fault == "table" and ranks.rank == self.number:
            run = replace(run, table=run.table.with_name("other.gz"))
        trainer = run._prepare(ranks)
        trainer.callbacks = Callbacks(should_stop=lambda: ranks.rank == self.number and self._fail(trainer))
        trainer.train()

    def _fail(self, trainer: Trainer[Any]) -> bool:
        if trainer.progress.update < 4:
            return False
        if self.fault is None:
            os.kill(os.getpid(), signal.SIGKILL)
        raise UserError(f"gpu {self.number}: {self.fault}")


DIED = (
    "train: another process of this training has ended, so the training ends; the same command resumes it from the "
    "last checkpoint\n"
)


@pytest.mark.parametrize(("number", "fault"), [(0, None), (1, None), (1, "is lost"), (1, "table")])
def test_one_process_ends_all_with_one_sentence(
    small_table: Path, tmp_path: Path, tiny_settings: Settings, number: int, fault: str | None
) -> None:
    (tmp_path / "other.gz").write_bytes((MINI / "phrase-table.gz").read_bytes())
    run = Run(tmp_path / "run", tiny_settings, small_table)
    codes, said = start_all(tmp_path / "meeting", Failing(run, number, fault), machines=2)
    expected = {
        None: DIED,
        "is lost": "train: gpu 1: is lost\n",
        "table": f"train: {run.folder}: process 1 of this training has another table; start all with the same command "
        "and the same files\n",
    }
    assert codes[1 - number] == 1
    assert codes[number] == (-signal.SIGKILL if fault is None else 1)
    assert sorted(said) == ["", expected[fault]]
    assert said[1 - number if fault is None else number]


def test_torchrun(small_table: Path, tmp_path: Path) -> None:
    """Processes started by torchrun form one group, write one model folder and print each message once."""
    launcher = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
    sizes = ["--hidden", "8", "--set", "model.embedding=5", "--set", "model.output_rank=3"]
    whole = ["--set", "training.long_pairs=1", "--evaluate-every", "100"]
    options = ["--device", "cpu", "--precision", "fp32", "--batch-size", "32", "--epochs", "1", *sizes, *whole]
    command = ["train", str(small_table), "-o", str(tmp_path / "run"), *options]
    done = subprocess.run([*launcher, "-m", "phrasescore", *command], capture_output=True, text=True, check=True)
    lines = done.stderr.splitlines()
    assert [line.split(",")[0] for line in lines if line.startswith("update")] == ["update 19"]
    assert [line for line in lines if line.startswith("done")] == [
        f"done after update 19: the budget is spent; the weights of update 19 are in {tmp_path / 'run'}"
    ]
    assert load_model(tmp_path / "run").direction == "target-given-source"


def test_a_parameter_that_no_share_needs_has_no_gradient(tmp_path: Path) -> None:
    """A parameter unused on every rank has no gradient, as with one process; optimisers treat a zero differently."""

    class Line(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.slope, self.unused = (torch.nn.Parameter(torch.tensor([2.0, 3.0])) for _ in range(2))

    def loss(examples: Examples) -> BatchLoss:
        return BatchLoss((line.slope * torch.from_numpy(examples)[:, None]).sum() / len(examples), len(examples))

    with joined(f"file://{tmp_path}/meeting?rank=0&world_size=1") as group:
        for ranks in (ALONE, group):
            line = Line()
            found = ranks.backward(line, loss, np.array([1, 2, 6]))
            assert (found.mean.item(), found.terms) == (15.0, 3)
            assert line.slope.grad is not None
            assert line.slope.grad.tolist() == [3.0, 3.0]
            assert line.unused.grad is None


def test_a_single_process_joins_no_group(monkeypatch: pytest.MonkeyPatch) -> None:
    for world_size in (None, "", "1"):
        if world_size is not None:
            monkeypatch.setenv("WORLD_SIZE", world_size)
        with joined() as ranks:
            assert ranks is ALONE
    monkeypatch.setenv("WORLD_SIZE", "2")
    with pytest.raises(UserError, match=r"do not answer .*RANK expected.*; start them by torchrun$"), joined():
        pass


@pytest.mark.parametrize("dropout", [0.0, 0.5])
def test_each_rank_drops_other_elements(
    small_table: Path, tmp_path: Path, tiny_settings: Settings, dropout: float
) -> None:
    training = replace(tiny_settings.training, learning_rate=0.0)
    settings = replace(tiny_settings, model=replace(TINY, dropout=dropout), training=training)
    trainer = prepare(small_table, tmp_path / "run", settings, CPU)

    class Second(Ranks):
        rank = 1

    losses = []
    for ranks in (Ranks(), Second(), Second()):
        one = Trainer(trainer.folder, trainer.task, trainer.state.fingerprint, ranks)
        one._update(next(trainer.task.batches(0)))
        losses.append(one._loss_sum.item())
    assert (losses[0] == losses[1]) == (dropout == 0)
    assert losses[1] == losses[2]


@pytest.mark.parametrize(
    ("name", "has_gpus", "expected"), [("auto", False, "auto"), ("cpu", True, "cpu"), ("cuda", True, "cuda:3")]
)
def test_each_rank_has_a_gpu(monkeypatch: pytest.MonkeyPatch, name: str, has_gpus: bool, expected: str) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: has_gpus)
    assert RankGroup(3, 4, 3).device_name(name) == expected
