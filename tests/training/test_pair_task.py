from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from phrasescore.device import Device, choose_device
from phrasescore.nn.batch import PairBatch
from phrasescore.nn.encoder_decoder import EncoderDecoder
from phrasescore.pairs import DataConfig, PhrasePairs
from phrasescore.phrases import Phrases
from phrasescore.training import pair_task
from phrasescore.training.phrase_pairs import PhrasePairTask
from phrasescore.training.run import prepare
from phrasescore.training.settings import Settings
from phrasescore.training.training_config import TrainingConfig
from tests.nn.family import FAMILY, config_of
from tests.no_numbers import META, copies

WORDS = 12


def make_task(name: str = "dot before", device: Device | None = None, teacher_forcing: float = 1.0) -> PhrasePairTask:
    torch.manual_seed(1)
    network = EncoderDecoder(config_of(name), WORDS, WORDS)
    random = np.random.default_rng(1)
    lists = [random.integers(2, WORDS, length).tolist() for length in (9, 9, 5, 2, 1, 0)]
    sides = Phrases.from_lists(lists[::-1]), Phrases.from_lists(lists)
    pairs = PhrasePairs(*sides, np.linspace(1, 2, 6, dtype=np.float32))
    device = device or choose_device("cpu", "fp32")
    network.to(device.torch_device)
    config = TrainingConfig(teacher_forcing=teacher_forcing)
    return PhrasePairTask(network, config, device, pairs, np.arange(6), pairs.take(np.arange(0)), None)


def gradient(task: PhrasePairTask) -> NDArray[np.float64]:
    torch.manual_seed(2)
    weights = list(task.network.parameters())
    gradients = torch.autograd.grad(task.loss(np.arange(6)).mean, weights)
    return torch.cat([one.flatten() for one in gradients]).double().numpy()


@pytest.mark.parametrize("teacher_forcing", [1.0, 0.5])
def test_a_batch_of_long_pairs_has_the_same_gradient_in_parts(
    monkeypatch: pytest.MonkeyPatch, teacher_forcing: float
) -> None:
    """Splitting a batch of long pairs to save memory does not change its gradient."""
    task = make_task(teacher_forcing=teacher_forcing)
    assert len(task._parts(np.arange(6))) == 1
    whole = gradient(task)
    monkeypatch.setitem(pair_task._MOST_KEPT, "cpu", 1)
    assert [part.tolist() for part in task._parts(np.arange(6))] == [[0], [1], [2], [3], [4], [5]]
    assert np.abs(whole).max() > 1e-3
    assert gradient(task) == pytest.approx(whole, rel=1e-4, abs=1e-7)


def test_parts_hand_over_tensors_of_the_device_whose_dropout_is_drawn_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """Recomputation restores the random state of exactly those devices that hold its tensors."""
    handed: list[set[torch.device]] = []

    def recorded(function: Any, *inputs: Any, use_reentrant: bool) -> torch.Tensor:
        handed.append({one.device for one in inputs if isinstance(one, torch.Tensor)})
        return torch.zeros(0, device=META)

    task = make_task(device=Device(META, None))
    monkeypatch.setitem(pair_task._MOST_KEPT, "meta", 1)
    monkeypatch.setattr(pair_task, "checkpoint", recorded)
    task.log_probs(np.arange(6))
    assert handed == [{META}] * 6


@pytest.mark.parametrize("product_dtype", [None, torch.bfloat16])
@pytest.mark.parametrize("name", FAMILY)
def test_a_gradient_takes_one_copy_and_asks_the_device_for_nothing(
    monkeypatch: pytest.MonkeyPatch, name: str, product_dtype: torch.dtype | None
) -> None:
    monkeypatch.setitem(pair_task._MOST_KEPT, "meta", 1 << 20)
    task = make_task(name, Device(META, None))
    task.network.multiply_in(product_dtype)
    with copies() as counted:
        task.loss(np.arange(6)).mean.backward()  # type: ignore[no-untyped-call]
    assert counted.number == 1
    assert all(weight.grad is not None for weight in task.network.parameters())


def test_counts_weight_the_loss(tmp_path: Path, tiny_settings: Settings) -> None:
    """Counts weight the loss: -sum w ln p / n, where ln p is computed for each pair separately."""
    counts = range(1, 21)
    lines = (f"{'a ' * count}b ||| c{' d' * count} ||| 1 ||| 0-0 ||| 20 20 {count}\n" for count in counts)
    (tmp_path / "table").write_text("".join(lines))
    training = replace(tiny_settings.training, warmup_updates=0)
    settings = replace(tiny_settings, data=DataConfig(weight_by_count=True, held_out=0), training=training)
    trainer, _ = prepare(tmp_path / "table", tmp_path / "run", settings, choose_device("cpu", "fp32"))
    (examples,) = trainer.task.batches(0)
    with torch.inference_mode():
        found = trainer.task.loss(examples).mean.item()
        pairs = [trainer.task.pairs.take(examples[[row]]) for row in range(20)]
        log_probs = [trainer.network(PairBatch.apart(pair.source, pair.target)).sum().item() for pair in pairs]
    weights = (examples + 1) / np.mean(counts)
    weighted = -np.dot(weights, log_probs) / 20
    assert found == pytest.approx(weighted, rel=1e-5)
    assert found != pytest.approx(-sum(log_probs) / 20, rel=0.01)
