"""Networks learn to copy, reverse and sort short strings; with attention also strings too long for one vector."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

from phrasescore.nn.architecture import ModelConfig
from phrasescore.nn.batch import PairBatch
from phrasescore.nn.encoder_decoder import EncoderDecoder
from phrasescore.phrases import Phrases

WORDS, BATCH, UPDATES, RATE = 14, 64, 150, 0.012
SHORT, LONG = 2, 8
PAPER: dict[str, Any] = {}
BAHDANAU: dict[str, Any] = {
    "encoder_unit": "gru",
    "decoder_unit": "gru",
    "directions": "both",
    "bridge": "first-backward",
    "attention": "concat",
    "attention_order": "before",
}
LUONG: dict[str, Any] = {
    "encoder_unit": "gru",
    "decoder_unit": "gru",
    "directions": "halves",
    "bridge": "last",
    "feed_context": False,
    "attention": "general",
    "readout": "attentional",
    "input_feeding": True,
}
Task = Callable[[list[int]], list[int]]


def copied(string: list[int]) -> list[int]:
    return string


def backwards(string: list[int]) -> list[int]:
    return string[::-1]


def pairs(random: np.random.Generator, task: Task, longest: int) -> PairBatch:
    """A batch of random strings of 1 to `longest` words."""
    strings = [random.integers(2, WORDS, length).tolist() for length in random.integers(1, longest + 1, BATCH)]
    strings.sort(key=len, reverse=True)
    return PairBatch.apart(Phrases.from_lists(strings), Phrases.from_lists(task(string) for string in strings))


def loss_after_training(changes: dict[str, Any], task: Task, longest: int) -> float:
    """Return the nats per symbol on held-out strings."""
    torch.manual_seed(1)
    random = np.random.default_rng(1)
    sizes = {"hidden": 32, "embedding": 16, "maxout": 32, "output_rank": 0}
    config = ModelConfig(**sizes, biases="all", initialisation="scaled", **changes)  # type: ignore[arg-type]
    network = EncoderDecoder(config, WORDS, WORDS)
    optimiser = torch.optim.Adam(network.parameters())
    for update in range(UPDATES):
        optimiser.param_groups[0]["lr"] = RATE * min(1, (update + 1) / 20) * (1 - update / UPDATES)
        optimiser.zero_grad()
        loss: torch.Tensor = -network(pairs(random, task, longest)).mean()
        loss.backward()  # type: ignore[no-untyped-call]
        torch.nn.utils.clip_grad_norm_(network.parameters(), 1.0)
        optimiser.step()
    with torch.inference_mode():
        return -float(network(pairs(np.random.default_rng(2), task, longest)).mean())


def test_one_vector_encodes_a_short_string_and_not_a_long_one() -> None:
    assert loss_after_training(PAPER, copied, SHORT) < 0.1
    assert loss_after_training(PAPER, copied, LONG) > 0.5


@pytest.mark.parametrize(("changes", "task"), [(BAHDANAU, sorted), (LUONG, backwards)], ids=["sorting", "reversing"])
def test_attention_learns_long_strings(changes: dict[str, Any], task: Task) -> None:
    assert loss_after_training(changes, task, LONG) < 0.15
