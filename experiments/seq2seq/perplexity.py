"""Perplexities of a translator on a text, each named for what it is."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from phrasescore.device import Device
from phrasescore.model_folder import TrainedModel
from phrasescore.pairs import PhrasePairs
from phrasescore.text import text_lines
from phrasescore.training.evaluation import batch_losses

_TUTORIAL_BATCH = 128


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
        model.source_vocabulary.encode(list(text_lines(source))),
        model.target_vocabulary.encode(list(text_lines(target))),
    )
    pairs = PhrasePairs(*sides, np.ones(len(sides[0]), np.float32))
    forced, free = (batch_losses(network, pairs, device, forcing, _TUTORIAL_BATCH) for forcing in (1.0, 0.0))
    return {
        "teacher_forced": _of_all(forced),
        "free_running": _of_all(free),
        "tutorial": math.exp(float(np.mean([loss / symbols for loss, symbols in free]))),
    }


def _of_all(losses: Sequence[tuple[float, int]]) -> float:
    return math.exp(sum(loss for loss, _ in losses) / sum(symbols for _, symbols in losses))
