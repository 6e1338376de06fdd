"""R-Drop (Liang et al. 2021): each update reads its examples twice, with different dropout masks."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
import torch

from phrasescore.cli import main
from phrasescore.parallel_text import ParallelText
from phrasescore.training.run import prepare
from phrasescore.training.settings import LearnsFrom, Settings
from phrasescore.training.tasks import EncoderDecoderTask
from phrasescore.vocabulary import END
from tests.conftest import MINI
from tests.nn.family import config_of
from tests.training.runs import CPU

WEIGHT = 4.0
DATA: dict[LearnsFrom, Path | ParallelText] = {
    "table": MINI / "phrase-table.gz",
    "sentences": ParallelText(MINI / "train.en", MINI / "train.fr"),
    "aligned": ParallelText(MINI / "train.en", MINI / "train.fr", MINI / "train.align"),
}


def task_of(kind: LearnsFrom, folder: Path, r_drop: float) -> EncoderDecoderTask:
    values = {"training": {"r_drop": r_drop, "batch_size": 16, "max_updates": 1, "sampled_words": 0}}
    model = config_of("Luong with input feeding", dropout=0.3, in_context=kind == "aligned")
    trainer = prepare(DATA[kind], folder, replace(Settings.of(kind, None, [values]), model=model), CPU)
    trainer.folder.release()
    assert isinstance(trainer.task, EncoderDecoderTask)
    trainer.task.network.train()
    return trainer.task


@pytest.mark.parametrize("kind", DATA)
def test_without_dropout_both_passes_are_equal(kind: LearnsFrom, tmp_path: Path) -> None:
    plain, twice = (task_of(kind, tmp_path / str(weight), weight) for weight in (0.0, WEIGHT))
    twice.network.load_state_dict(plain.network.eval().state_dict())
    twice.network.eval()
    examples = next(iter(plain.batches(0)))
    torch.testing.assert_close(twice.loss(examples).mean, plain.loss(examples).mean)


@pytest.mark.parametrize("kind", DATA)
def test_the_loss_adds_half_of_the_weighted_divergence(kind: LearnsFrom, tmp_path: Path) -> None:
    """The two predictions of a symbol are neighbours among the rows of the softmax."""
    task = task_of(kind, tmp_path / "run", WEIGHT)
    read: list[tuple[torch.Tensor, torch.Tensor, torch.Tensor]] = []
    log_probs = task.network.softmax.log_probs

    def kept(s_Ar: torch.Tensor, node_I: torch.Tensor, symbol_I: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        read.append((s_Ar, node_I, symbol_I))
        return log_probs(s_Ar, node_I, symbol_I)

    task.network.softmax.log_probs = kept  # type: ignore[method-assign]
    examples = next(iter(task.batches(0)))
    with torch.no_grad():
        loss = task.loss(examples)
    ((s_Ar, node_I, symbol_I),) = read
    symbol_A = torch.zeros(len(s_Ar), dtype=torch.long).index_put_((node_I,), symbol_I)
    assert torch.equal(symbol_A[0::2], symbol_A[1::2])
    log_p_IV = torch.log_softmax(task.network.softmax.words(s_Ar).detach(), dim=1)[node_I.sort().values]
    p_KV, q_KV = log_p_IV[0::2], log_p_IV[1::2]
    divergence_K = ((p_KV.exp() - q_KV.exp()) * (p_KV - q_KV)).sum(1) / 2
    assert float(divergence_K.min()) > 0
    nats = -log_p_IV.gather(1, symbol_A[node_I.sort().values, None]).sum() + WEIGHT * divergence_K.sum()
    terms = len(symbol_I) if kind == "sentences" else torch.count_nonzero(symbol_I == END)
    torch.testing.assert_close(loss.mean, nats / terms)


def test_it_needs_dropout(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    options = ["--set", "training.r_drop=5", "--set", "model.dropout=0"]
    assert main(["train", str(MINI / "phrase-table.gz"), "-o", str(tmp_path / "run"), *options]) == 2
    assert "`r_drop`: has no effect without dropout" in capsys.readouterr().err
