from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from phrasescore.device import Device, choose_device
from phrasescore.nn.batch import PairBatch
from phrasescore.nn.encoder_decoder import EncoderDecoder
from phrasescore.pairs import DataConfig, PhrasePairs
from phrasescore.phrases import Phrases
from phrasescore.training.run import prepare
from phrasescore.training.settings import Settings
from phrasescore.training.tasks import PhrasePairTask
from phrasescore.training.training_config import TrainingConfig
from tests.nn.family import FAMILY, config_of
from tests.no_numbers import META, copies

WORDS = 12


def make_task(name: str, device: Device) -> PhrasePairTask:
    torch.manual_seed(1)
    network = EncoderDecoder(config_of(name), WORDS, WORDS)
    random = np.random.default_rng(1)
    lists = [random.integers(2, WORDS, length).tolist() for length in (9, 9, 5, 2, 1, 0)]
    sides = Phrases.from_lists(lists[::-1]), Phrases.from_lists(lists)
    pairs = PhrasePairs(*sides, np.linspace(1, 2, 6, dtype=np.float32))
    network.to(device.torch_device)
    return PhrasePairTask(network, TrainingConfig(), device, pairs.take(np.arange(0)), None, pairs, np.arange(6))


@pytest.mark.parametrize("product_dtype", [None, torch.bfloat16])
@pytest.mark.parametrize("name", FAMILY)
def test_a_gradient_takes_one_copy_and_asks_the_device_for_nothing(
    name: str, product_dtype: torch.dtype | None
) -> None:
    task = make_task(name, Device(META, None))
    task.network.softmax.product_dtype = product_dtype
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
