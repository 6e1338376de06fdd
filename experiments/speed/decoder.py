"""The decoder with a neural language model in it, and without: seconds a sentence, and what its cache serves."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

import torch

from experiments.machine import used_time
from moses_integration.decoder.graph import SearchGraph
from moses_integration.decoder.model import LogLinearModel
from moses_integration.decoder.neural_lm import NeuralLanguageModelFeature
from moses_integration.decoder.phrases import Words, words_of
from moses_integration.decoder.pool import Decoder
from moses_integration.decoder.settings import read_settings
from moses_integration.ini import MosesIni
from phrasescore.device import choose_device
from phrasescore.errors import UserError
from phrasescore.files import read_lines
from phrasescore.lm.model_folder import load_language_model


@dataclass(frozen=True)
class _Best:
    """The task of finding the best translation."""

    needs_arcs: bool = False

    def __call__(self, number: int, sentence: Words, model: LogLinearModel, graph: SearchGraph) -> None:
        """Find it; nobody looks at it."""
        graph.best()


def measure(ini_path: Path, source: Path, sentences: int) -> dict[str, Any]:
    """Return seconds a sentence (`used_time`), on one thread, with what a tuned moses.ini with a CSLM feature names.

    Each decoder translates the sentences twice: the second time, as in tuning, it has met nearly all n-grams before. A
    cache in a file is left out, for what it holds already would make the first time fast.

    Raises:
        UserError: the ini has no CSLM feature or several, or something that it names cannot be used.
    """
    torch.set_num_threads(1)
    texts = [words_of(line) for line in islice(read_lines(source), sentences)]
    if not texts:
        raise UserError(f"{source}: has no sentences; give prepared source text")
    ini = MosesIni.read(ini_path)
    neural = [feature for feature in ini.features() if feature.kind == "CSLM"]
    if len(neural) != 1:
        raise UserError(f"{ini_path}: has {len(neural)} CSLM features; give an ini with one, which `add-lm` makes")
    forms = {"normalised": "false"}
    if load_language_model(ini.path_of(neural[0])).network.config.self_normalise:
        forms["unnormalised"] = "true"
    found: dict[str, Any] = {"ini": str(ini_path), "sentences": len(texts)}
    found["without"] = _decode(ini.without_feature(neural[0].label), texts)
    for name, value in forms.items():
        changed = ini.copy()
        changed.set_argument(neural[0].label, "unnormalised", value)
        changed.remove_argument(neural[0].label, "cache")
        found[name] = _decode(changed, texts)
        found[name]["times_without"] = found[name]["first_seconds"] / found["without"]["first_seconds"]
    return found


def _decode(ini: MosesIni, texts: list[Words]) -> dict[str, float]:
    decoder, task, device = Decoder(ini, read_settings(ini), texts), _Best(), choose_device("auto", "fp32")
    model = decoder.model
    neural = [feature for feature in model.context_features if isinstance(feature, NeuralLanguageModelFeature)]
    found: dict[str, float] = {}
    for name in ("first", "again"):
        started = used_time(device)
        for number in range(len(texts)):
            decoder.run(task, number)
        found[f"{name}_seconds"] = (used_time(device) - started) / len(texts)
        for feature in neural:
            found[f"{name}_queries"] = feature.queries / len(texts)
            found[f"{name}_served"] = feature.served / max(feature.queries, 1)
            feature.queries = feature.served = 0
    return found
