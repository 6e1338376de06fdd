"""The layers with dropout, and new masks for each update."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import Any

import pytest
from torch import Tensor, nn

from phrasescore.nn.architecture import ModelConfig
from tests.conftest import TINY
from tests.nn.family import config_of
from tests.nn.networks import TARGETS, random_network, scores, shared

RATE = 0.25
PLAIN = replace(TINY, summary=False, dropout=RATE)
"""Word vectors of 5, states of 8, maxout of 4; no summary, because it would have the size of the states."""
STACKED: dict[str, Any] = {"encoder_layers": 2, "decoder_layers": 2}
ATTENTION: dict[str, Any] = {"attention": "dot", "readout": "attentional"}
WORDS = {("encoder", 5), ("decoder", 5)}


def dropped(config: ModelConfig) -> set[tuple[str, int, float]]:
    """Return the layers with dropout, the sizes of their vectors, and the rates."""
    network = random_network(config).train()
    found = set()
    for name, module in network.named_modules():
        if isinstance(module, nn.Dropout):

            def note(
                module: nn.Dropout, given: tuple[Tensor], output: Tensor, name: str = name.removesuffix(".dropout")
            ) -> None:
                assert given[0].all(), "the input has zeros, so it has had dropout already"
                found.add((name, given[0].shape[-1], module.p))

            module.register_forward_hook(note)
    scores(network, shared())
    return found


@pytest.mark.parametrize(
    ("changes", "places"),
    [
        ({}, WORDS | {("decoder.readout", 4)}),
        ({"summary": True}, WORDS | {("encoder", 8), ("decoder.readout", 4)}),
        (STACKED, WORDS | {("encoder", 8), ("decoder", 8), ("decoder.readout", 4)}),
        (ATTENTION, WORDS | {("decoder.readout", 8)}),
        ({"readout": "state"}, WORDS | {("decoder.readout", 8)}),
        ({"readout": "word-state-context"}, WORDS),
        ({"readout": "state", "feed_word": False}, {("encoder", 5), ("decoder.readout", 8)}),
    ],
)
def test_dropout_acts_on_the_documented_layers(changes: dict[str, Any], places: set[tuple[str, int]]) -> None:
    assert dropped(replace(PLAIN, **changes)) == {(*place, RATE) for place in places}


def test_dropout_acts_on_each_part_of_a_transformer() -> None:
    network = random_network(replace(config_of("transformer"), dropout=RATE)).train()
    calls = Counter[str]()
    for name, module in network.named_modules():
        if isinstance(module, nn.Dropout):
            module.register_forward_hook(lambda *_, name=name: calls.update([name]))
    scores(network, shared())
    # The word vectors, and in each layer attention, in a decoder also to the source, and the feed-forward part. The
    # decoder is called for each symbol.
    symbols = max(map(len, TARGETS)) + 1
    assert calls == {
        "encoder.stack.dropout": 1,
        **{f"encoder.stack.layers.{layer}.dropout": 2 for layer in range(2)},
        "decoder.stack.dropout": symbols,
        **{f"decoder.stack.layers.{layer}.dropout": 3 * symbols for layer in range(2)},
    }


def test_dropout_acts_in_training_only() -> None:
    network, dropping = random_network(TINY), random_network(replace(TINY, dropout=0.5))
    assert (scores(dropping.eval(), shared()) == scores(network, shared())).all()
    dropping.train()
    assert (scores(dropping, shared()) != scores(dropping, shared())).all()
