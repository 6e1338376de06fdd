"""What networks cost in translating: seconds a sentence, in one process on one thread.

The same sentences are decoded twice. The first time nothing is known of them; the second time, as in tuning, a neural
language model in the decoder finds nearly all its n-grams in its cache. Loading is left out, and so is searching for
weights; one word is translated once before. Seconds are the CPU's, which hardly change when the machine has
other work too; where a GPU computes the networks they are the clock's.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from experiments.timing import used_time
from moses_integration.decoder.neural_lm import NeuralLanguageModelFeature
from moses_integration.decoder.phrases import words_of
from moses_integration.decoder.pool import SentenceDecoder
from moses_integration.decoder.settings import read_settings
from moses_integration.ini import MosesIni, Weights
from moses_integration.list_scorers import load_scorers
from moses_integration.nbest import parse_entry
from moses_integration.placed.places import PlaceColumns
from moses_integration.placed.system import place_text
from moses_integration.placed.toolkit import narrow
from moses_integration.rescoring import add_scores, best_of, rerank
from moses_integration.scorer_kinds import ScorerChoice
from moses_integration.toolkits.embedded import Translating
from phrasescore.device import Device, choose_device, one_thread
from phrasescore.files import write_lines
from phrasescore.text import text_lines

Json = dict[str, Any]


def time_decoding(ini: MosesIni, source: Sequence[bytes]) -> Json:
    """Return what decoding costs.

    Args:
        ini: tuned.
        source: sentences as tokens.

    Returns:
        `device`, where networks compute; `cold` and `warm`: `seconds` a sentence, `queries` of the neural language
        model a sentence, and `served`, the share of them that its cache had (None without queries).

    Raises:
        UserError: the model cannot be loaded.
    """
    with one_thread():
        return _decode_twice(ini, source)[0]


def time_rescoring(
    ini: MosesIni, source: Sequence[bytes], choices: Sequence[ScorerChoice], weights: Weights, size: int
) -> Json:
    """Return what decoding costs if networks then choose from n-best lists; `ini` is that of the decoder.

    Args:
        ini: tuned, of what makes the lists.
        source: sentences as tokens.
        choices: what scores the lists.
        weights: for all features.
        size: translations of a list.

    Returns:
        See `time_decoding`; besides, `rescoring` is what scoring and choosing take, in seconds a sentence. It is part
        of the other seconds.

    Raises:
        UserError: a model cannot be loaded.
    """
    with one_thread():
        costs, lines = _decode_twice(ini, source, size)
        device, entries = _device(), [parse_entry(line.rstrip(b"\n")) for line in lines]
        scorers = load_scorers(choices, device, ini.language_model())
        started = used_time(device)
        best_of(rerank(add_scores(entries, source, scorers), weights), len(source))
        return _with_part(costs, "rescoring", (used_time(device) - started) / len(source))


def time_in_context(ini: MosesIni, source: Sequence[bytes], column: PlaceColumns) -> Json:
    """Return what decoding costs with the table that a column makes for the text.

    Returns:
        See `time_decoding`; `placing`, in seconds a sentence, is what the table takes, and part of the other seconds.

    Raises:
        UserError: a model cannot be loaded.
    """
    with TemporaryDirectory() as folder, one_thread():
        text, device = Path(folder) / "text", _device()
        write_lines(text, source)
        started = used_time(device)
        narrowed = narrow(ini, column.width)
        placed = place_text(narrowed, text, Path(folder), column, ini.weights_of_features(), ini.name)
        placing = (used_time(device) - started) / len(source)
        costs = time_decoding(MosesIni.read(placed.ini), list(text_lines(placed.text)))
    return _with_part(costs, "placing", placing)


def _device() -> Device:
    """Return where the decoder lets networks compute."""
    return choose_device("auto", "fp32")


def _decode_twice(ini: MosesIni, source: Sequence[bytes], size: int = 0) -> tuple[Json, list[bytes]]:
    """Return what `time_decoding` does, and the lines of n-best lists of a size."""
    device, sentences = _device(), [words_of(line) for line in source]
    # So that no pass has to pay for what a process does once: one word, whose few n-grams hardly fill a cache.
    sentences.append(sentences[0][:1])
    decoder = SentenceDecoder(_with_empty_caches(ini), read_settings(ini), sentences)
    decoder.run(Translating(0), len(source))
    neural = [one for one in decoder.model.context_features if isinstance(one, NeuralLanguageModelFeature)]
    costs: Json = {"device": str(device)}
    for name in ("cold", "warm"):
        for feature in neural:
            feature.queries = feature.served = 0
        started = used_time(device)
        lists = [decoder.run(Translating(size), number)[1] for number in range(len(source))]
        seconds = used_time(device) - started
        queries, served = sum(one.queries for one in neural), sum(one.served for one in neural)
        costs[name] = {
            "seconds": seconds / len(source),
            "queries": queries / len(source),
            "served": served / queries if queries else None,
        }
    return costs, [line for lines in lists for line in lines]


def _with_part(costs: Json, name: str, seconds: float) -> Json:
    """Return costs with the seconds that something more takes for a sentence."""
    whole = {one: {**costs[one], "seconds": costs[one]["seconds"] + seconds} for one in ("cold", "warm")}
    return {**costs, **whole, name: seconds}


def _with_empty_caches(ini: MosesIni) -> MosesIni:
    """Return a copy whose neural language models keep no scores in files: those would be of earlier decodings."""
    ini = ini.copy()
    for feature in ini.features():
        ini.remove_argument(feature.label, "cache")
    return ini
