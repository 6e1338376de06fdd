"""The decoder with a neural language model in it, and without: seconds a sentence, and what its cache serves."""

from __future__ import annotations

from itertools import islice
from pathlib import Path
from typing import Any

from experiments.decoding_time import time_decoding
from moses_integration.ini import MosesIni
from phrasescore.errors import UserError
from phrasescore.lm.model_folder import load_language_model
from phrasescore.text import text_lines


def measure(ini_path: Path, source: Path, sentences: int) -> dict[str, Any]:
    """Return what decoding costs (`time_decoding`) with what a tuned moses.ini with a CSLM feature names.

    `without` is without that feature. `normalised` has it, and so has `unnormalised` if the network learnt to normalise
    itself; both have `times_without`, of the seconds with nothing in the cache.

    Raises:
        UserError: the ini has no CSLM feature or several, or something that it names cannot be used.
    """
    texts = list(islice(text_lines(source), sentences))
    if not texts:
        raise UserError(f"{source}: has no sentences; give prepared source text")
    ini = MosesIni.read(ini_path)
    neural = [feature for feature in ini.features() if feature.kind == "CSLM"]
    if len(neural) != 1:
        raise UserError(f"{ini_path}: has {len(neural)} CSLM features; give an ini with one, which `add-lm` makes")
    forms = {"normalised": "false"}
    if load_language_model(ini.path_of(neural[0])).network.config.self_normalise:
        forms["unnormalised"] = "true"
    without = time_decoding(ini.without_feature(neural[0].label), texts)
    found: dict[str, Any] = {"ini": str(ini_path), "sentences": len(texts), "without": without}
    for name, value in forms.items():
        changed = ini.copy()
        changed.set_argument(neural[0].label, "unnormalised", value)
        cost = time_decoding(changed, texts)
        found[name] = {**cost, "times_without": cost["cold"]["seconds"] / without["cold"]["seconds"]}
    return found
