from __future__ import annotations

import numpy as np
import pytest
import torch

from phrasescore.device import Device
from phrasescore.nn.encoder_decoder import EncoderDecoder
from phrasescore.pairs import PhrasePairs
from phrasescore.phrases import Phrases
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
    pairs = PhrasePairs(*sides)
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
