"""Measure decoding of a text and of long sentences, and the query rate of the neural language model.

`experiments.ablation` measures the decoding time of tuned systems with networks.
"""

from __future__ import annotations

import os
import resource
import subprocess
import time
from dataclasses import dataclass
from functools import partial
from itertools import chain, cycle, islice
from pathlib import Path
from tempfile import TemporaryDirectory
from timeit import repeat, timeit
from typing import Any

import numpy as np
import torch

from experiments.timing import timed
from moses_integration.decoder.graph import SearchGraph
from moses_integration.decoder.model import LogLinearModel
from moses_integration.decoder.phrases import Words, words_of
from moses_integration.decoder.pool import Translating, load_decoder
from moses_integration.decoder.settings import read_settings
from moses_integration.ini import MosesIni
from phrasescore.device import choose_device
from phrasescore.files import read_lines
from phrasescore.lm.lm_scorer import NeuralLmScorer
from phrasescore.lm.lm_settings import LmSettings
from phrasescore.model_folder import TrainedLanguageModel
from phrasescore.nn.neural_lm import NeuralLanguageModel
from phrasescore.vocabulary import Vocabulary

SYSTEM, TEXT = Path("tests/data/mini/moses.tuned.ini"), Path("tests/data/mini/test.en")
_LENGTHS = (25, 250, 1000, 4000)
_LISTED = 100
_QUERIES = 4096


@dataclass(frozen=True)
class _BestScore:
    """Task: the model score of the best translation."""

    needs_arcs = False

    def __call__(self, number: int, sentence: Words, model: LogLinearModel, graph: SearchGraph) -> float:
        best = graph.best()
        return best.score if best else -np.inf


def measure_decoder(system: Path, text: Path) -> dict[str, Any]:
    """Measure sentences per CPU second of one core without loading, mean model score and peak memory.

    The first pass over a text also parses the options of its phrases, which Moses does while it loads; the second pass
    is search only. With MOSES_HOME set, Moses' normal search and cube pruning are measured, too, and those of moses2.
    """
    ini = MosesIni.read(system)
    sentences = [words_of(line) for line in read_lines(text)]
    decoder = load_decoder(ini, read_settings(ini), sentences)

    def decode() -> dict[str, float]:
        start = time.process_time()
        scores = [decoder.run(_BestScore(), number) for number in range(len(sentences))]
        rate = len(sentences) / (time.process_time() - start)
        return {"sentences per CPU second": rate, "mean model score": float(np.mean(scores))}

    found: dict[str, Any] = {"first pass": decode(), "second pass": decode()}
    found["peak MB"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    if home := os.environ.get("MOSES_HOME"):
        switches = {"": ("0",), ", cube pruning": ("1", "-cube-pruning-pop-limit", "1000")}
        for program in ("moses", "moses2"):
            path = Path(home, "bin", program).resolve()
            for name, chosen in switches.items() if path.exists() else ():
                found[program + name] = _measure_moses(path, system, text, ("-search-algorithm", *chosen))
    return found


def _measure_moses(program: Path, system: Path, text: Path, switches: tuple[str, ...]) -> dict[str, float]:
    """Measure Moses as `measure_decoder` does; a run with one sentence gives the time of loading."""
    lines = list(read_lines(text))
    with TemporaryDirectory() as folder:
        source, nbest = Path(folder, "source"), Path(folder, "nbest")

        def seconds(number: int) -> float:
            source.write_bytes(b"".join(line + b"\n" for line in lines[:number]))
            command: list[str | Path] = [program, "-f", system.resolve(), "-i", source, "-n-best-list", nbest, "1"]
            with timed() as timing:
                subprocess.run(
                    [*command, "-v", "0", "-threads", "1", *switches],
                    cwd=system.parent,
                    check=True,
                    capture_output=True,
                )
            return timing.cpu_seconds

        loading = seconds(1)
        rate = (len(lines) - 1) / (seconds(len(lines)) - loading)
        entries = [line.split(b" ||| ") for line in read_lines(nbest)]
    # The best entry of a sentence comes first; moses2 lists more than it is asked for.
    best = {entry[0]: float(entry[3]) for entry in reversed(entries)}
    return {"sentences per CPU second": rate, "mean model score": float(np.mean(list(best.values())))}


def measure_long_sentences() -> dict[str, Any]:
    """Measure the CPU seconds for the best translation and for a 100-best list, by sentence length.

    Sentences are concatenated from a text, which is repeated. The distortion limit is the default of Moses.
    """
    ini = MosesIni.read(SYSTEM)
    text = cycle(chain.from_iterable(map(words_of, read_lines(TEXT))))
    sentences = [tuple(islice(text, length)) for length in _LENGTHS]
    decoder = load_decoder(ini, read_settings(ini), sentences)

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
        scorer = NeuralLmScorer(model, device)
        asked = np.random.default_rng(1).integers(2, scorer.shortlist, (_QUERIES, scorer.order))
        score = partial(scorer.log_probs, asked[:, :-1], asked[:, -1], unnormalised=unnormalised)
        # The first run is a warm-up.
        seconds = repeat(score, number=1, repeat=repetitions + 1)[1:]
        return _QUERIES / float(np.median(seconds))

    speed = {"exact": queries_per_second(unnormalised=False), "unnormalised": queries_per_second(unnormalised=True)}
    times = speed["unnormalised"] / speed["exact"]
    return {"preset": preset, "repetitions": repetitions, "queries_per_second": speed, "times_exact": times}
