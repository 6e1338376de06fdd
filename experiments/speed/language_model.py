"""The neural language model: queries a second with the softmax's sum over all words, and without it."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import numpy as np
import torch

from phrasescore.device import Device, choose_device
from phrasescore.lm.model_folder import TrainedLanguageModel
from phrasescore.lm.presets import PRESETS
from phrasescore.lm.scorer import NeuralLmScorer
from phrasescore.nn.config import NeuralLmConfig
from phrasescore.nn.neural_lm import NeuralLanguageModel
from phrasescore.vocabulary import Vocabulary

_QUERIES = 4096


def measure(device_name: str, preset: str, repetitions: int) -> dict[str, Any]:
    """Return the speed of a network with random weights, each query with a context of its own, in one call."""
    # As in the decoder, which asks it most.
    device = choose_device(device_name, "fp32")
    words: int = PRESETS[preset]["text"]["vocabulary"]
    torch.manual_seed(1)
    vocabulary = Vocabulary(b"w%d" % number for number in range(words))
    network = NeuralLanguageModel(NeuralLmConfig(**PRESETS[preset]["model"]), len(vocabulary)).eval()
    model = TrainedLanguageModel(Path("random"), network, vocabulary, "random")
    speed = {
        name: _queries_per_second(model, device, repetitions, unnormalised=name == "unnormalised")
        for name in ("exact", "unnormalised")
    }
    return {
        "preset": preset,
        "words": words,
        "precision": device.precision,
        "queries": _QUERIES,
        "repetitions": repetitions,
        "queries_per_second": speed,
        "times_exact": speed["unnormalised"] / speed["exact"],
    }


def _queries_per_second(model: TrainedLanguageModel, device: Device, repetitions: int, *, unnormalised: bool) -> float:
    scorer = NeuralLmScorer(model, device, unnormalised=unnormalised)
    asked = np.random.default_rng(1).integers(2, scorer.shortlist, (_QUERIES, scorer.order))
    seconds = []
    for _ in range(repetitions + 1):
        started = time.perf_counter()
        scorer.log_probs(asked[:, :-1], asked[:, -1])
        seconds.append(time.perf_counter() - started)
    # The first one warms up.
    return _QUERIES / float(np.median(seconds[1:]))
