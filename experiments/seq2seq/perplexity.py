"""Perplexities of a translator on a text, each named for what it is."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import torch

from phrasescore.device import Device
from phrasescore.files import read_lines
from phrasescore.model_folder import TrainedModel
from phrasescore.nn.batch import PairBatch
from phrasescore.pairs import PhrasePairs, batches_in_order

_TUTORIAL_BATCH = 128


@torch.inference_mode()
def perplexities(model: TrainedModel, source: Path, target: Path, device: Device) -> dict[str, float]:
    """Return perplexities per predicted symbol, words and end symbols.

    `teacher_forced`: the network reads the words of the reference, as in every definition of the perplexity of a model.
    `free_running`: it reads its own most probable words instead, and is asked for those of the reference all the same.
    `tutorial`: the same, but the exponential of a mean over batches of their means, so that short sentences count for
    more; what the tutorial calls test perplexity.
    """
    network = model.network.to(device.torch_device).eval()
    network.multiply_in(device.product_dtype)
    sides = (
        model.source_vocabulary.encode(list(read_lines(source))),
        model.target_vocabulary.encode(list(read_lines(target))),
    )
    pairs = PhrasePairs(*sides, np.ones(len(sides[0]), np.float32))

    def losses(teacher_forcing: float) -> list[tuple[float, int]]:
        found = []
        with device.products():
            for lines in batches_in_order(pairs, _TUTORIAL_BATCH):
                some = pairs.take(lines)
                batch = PairBatch.apart(some.source, some.target).to(device.torch_device)
                found.append((-float(network(batch, teacher_forcing).double().sum()), len(batch.symbol_I)))
        return found

    forced, free = losses(1.0), losses(0.0)
    return {
        "teacher_forced": _of_all(forced),
        "free_running": _of_all(free),
        "tutorial": math.exp(float(np.mean([loss / symbols for loss, symbols in free]))),
    }


def _of_all(losses: list[tuple[float, int]]) -> float:
    return math.exp(sum(loss for loss, _ in losses) / sum(symbols for _, symbols in losses))
