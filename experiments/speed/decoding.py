"""Measure decoding of long sentences, and the query rate of the neural language model.

`experiments.ablation` measures the decoding time of tuned systems with networks.
"""

from __future__ import annotations

import time
from itertools import chain, cycle, islice
from pathlib import Path
from timeit import repeat, timeit
from typing import Any

import numpy as np
import torch

from moses_integration.decoder.output import Translating
from moses_integration.decoder.phrases import words_of
from moses_integration.decoder.pool import SentenceDecoder
from moses_integration.decoder.settings import read_settings
from moses_integration.ini import MosesIni
from phrasescore.device import choose_device
from phrasescore.files import read_lines
from phrasescore.lm.lm_scorer import NeuralLmScorer
from phrasescore.lm.lm_settings import LmSettings
from phrasescore.model_folder import TrainedLanguageModel
from phrasescore.nn.neural_lm import NeuralLanguageModel
from phrasescore.vocabulary import Vocabulary

_SYSTEM, _TEXT = Path("tests/data/mini/moses.tuned.ini"), Path("tests/data/mini/test.en")
_LENGTHS = (25, 250, 1000, 4000)
_LISTED = 100
_QUERIES = 4096


def measure_long_sentences() -> dict[str, Any]:
    """Measure the CPU seconds for the best translation and for a 100-best list, by sentence length.

    Sentences are concatenated from a text, which is repeated. The distortion limit is the default of Moses.
    """
    ini = MosesIni.read(_SYSTEM)
    text = cycle(chain.from_iterable(map(words_of, read_lines(_TEXT))))
    sentences = [tuple(islice(text, length)) for length in _LENGTHS]
    decoder = SentenceDecoder(ini, read_settings(ini), sentences)

    def seconds(number: int, size: int) -> float:
        return timeit(lambda: decoder.run(Translating(size), number), timer=time.process_time, number=1)

    return {
        f"{length} words": {"best": seconds(number, 0), "list": seconds(number, _LISTED)}
        for number, length in enumerate(_LENGTHS)
    }


def measure_language_model(device_name: str, preset: str, repetitions: int) -> dict[str, Any]:
    """Measure the queries per second of a neural language model, with and without softmax normalisation.

    The weights are random. Each query has a different context, and all queries are one batch.
    """
    # Use the precision of the decoder.
    device = choose_device(device_name, "fp32")
    torch.manual_seed(1)
    settings = LmSettings.of(preset, [])
    vocabulary = Vocabulary(b"w%d" % number for number in range(settings.text.vocabulary))
    network = NeuralLanguageModel(settings.model, len(vocabulary)).eval()
    model = TrainedLanguageModel(network, vocabulary, folder=Path("random"))

    def queries_per_second(*, unnormalised: bool) -> float:
        scorer = NeuralLmScorer(model, device, unnormalised=unnormalised)
        asked = np.random.default_rng(1).integers(2, scorer.shortlist, (_QUERIES, scorer.order))
        # The first run is a warm-up.
        seconds = repeat(lambda: scorer.log_probs(asked[:, :-1], asked[:, -1]), number=1, repeat=repetitions + 1)[1:]
        return _QUERIES / float(np.median(seconds))

    speed = {"exact": queries_per_second(unnormalised=False), "unnormalised": queries_per_second(unnormalised=True)}
    times = speed["unnormalised"] / speed["exact"]
    return {"preset": preset, "repetitions": repetitions, "queries_per_second": speed, "times_exact": times}
