"""The decoder with a neural language model in it, and without: seconds a sentence, and what its cache serves."""

from __future__ import annotations

import time
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

import torch

from moses_integration.decoder.graph import SearchGraph
from moses_integration.decoder.model import LogLinearModel
from moses_integration.decoder.neural_lm import NeuralLanguageModelFeature
from moses_integration.decoder.phrases import Words, split_words
from moses_integration.decoder.pool import Decoder
from moses_integration.decoder.settings import read_settings
from moses_integration.ini import MosesIni
from phrasescore.files import read_lines


@dataclass(frozen=True)
class Best:
    """The task of finding the best translation."""

    needs_arcs: bool = False

    def __call__(self, number: int, sentence: Words, model: LogLinearModel, graph: SearchGraph) -> None:
        """Find it; nobody looks at it."""
        graph.best()


def measure(ini_path: Path, source: Path, sentences: int) -> dict[str, Any]:
    """Return CPU seconds a sentence, on one thread, with what a tuned moses.ini with a CSLM feature names.

    Each decoder translates the sentences twice: the second time, as in tuning, it has met nearly all n-grams before.
    """
    torch.set_num_threads(1)
    texts = [split_words(line) for line in islice(read_lines(source), sentences)]
    ini = MosesIni.read(ini_path)
    [feature] = [one for one in ini.features() if one.kind == "CSLM"]
    found: dict[str, Any] = {"ini": str(ini_path), "sentences": len(texts)}
    found["without"] = _decode(ini.without_feature(feature.label), texts)
    for name, value in (("normalised", "false"), ("unnormalised", "true")):
        ini.set_argument(feature.label, "unnormalised", value)
        found[name] = _decode(ini, texts)
        found[name]["times_without"] = found[name]["first_seconds"] / found["without"]["first_seconds"]
    return found


def _decode(ini: MosesIni, texts: list[Words]) -> dict[str, float]:
    decoder, task = Decoder(ini, read_settings(ini), texts), Best()
    model = decoder.model
    neural = [feature for feature in model.context_features if isinstance(feature, NeuralLanguageModelFeature)]
    found: dict[str, float] = {}
    for name in ("first", "again"):
        started = time.process_time()
        for number in range(len(texts)):
            decoder.run(task, number)
        found[f"{name}_seconds"] = (time.process_time() - started) / len(texts)
        for feature in neural:
            found[f"{name}_queries"] = feature.queries / len(texts)
            found[f"{name}_served"] = feature.served / max(feature.queries, 1)
            feature.queries = feature.served = 0
    return found
