"""What networks cost in translating: seconds a sentence, in one process on one thread.

The same sentences are decoded twice. The first time nothing is known of them; the second time, as in tuning, a neural
language model in the decoder finds nearly all its n-grams in its cache. Loading is left out, and so is searching for
weights; one word is translated once before. Seconds are the CPU's, which hardly change when the machine has
other work too; where a GPU computes the networks they are the clock's.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from experiments.timing import used_time
from moses_integration.decoder.graph import SearchGraph
from moses_integration.decoder.model import LogLinearModel
from moses_integration.decoder.neural_lm import NeuralLanguageModelFeature
from moses_integration.decoder.output import nbest_entry
from moses_integration.decoder.phrases import Words, words_of
from moses_integration.decoder.pool import SentenceDecoder
from moses_integration.decoder.settings import read_settings
from moses_integration.ini import MosesIni, Weights
from moses_integration.list_scorers import load_scorers
from moses_integration.nbest import NbestEntry
from moses_integration.placed.places import PlaceColumns
from moses_integration.placed.system import place_text
from moses_integration.placed.toolkit import narrow
from moses_integration.rescoring import add_scores, best_of, rerank
from moses_integration.scorer_kinds import ScorerChoice
from phrasescore.device import Device, choose_device, one_thread
from phrasescore.files import write_lines
from phrasescore.text import text_lines

Json = dict[str, Any]


@dataclass(frozen=True)
class Listing:
    """The task of listing a sentence's best translations, or the best one only."""

    size: int

    @property
    def needs_arcs(self) -> bool:
        """Whether there are lists."""
        return self.size > 1

    def __call__(self, number: int, sentence: Words, model: LogLinearModel, graph: SearchGraph) -> list[NbestEntry]:
        """Return the translations."""
        best = graph.best()
        listed = graph.n_best(self.size, distinct=True) if self.needs_arcs else [best] if best else []
        return [nbest_entry(model, number, one, segmentation=True, alignment=True) for one in listed]


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
        decoder, device = _load(ini, source), _device()
        costs = {name: _decode(decoder, len(source), 1, device)[0] for name in ("cold", "warm")}
    return {"device": str(device), **costs}


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
        decoder, device = _load(ini, source), _device()
        scorers = load_scorers(choices, device, ini.language_model())
        found = {name: _decode(decoder, len(source), size, device) for name in ("cold", "warm")}
        started = used_time(device)
        best_of(rerank(add_scores(found["cold"][1], source, scorers), weights), len(source))
        rescoring = (used_time(device) - started) / len(source)
    costs = {name: {**cost, "seconds": cost["seconds"] + rescoring} for name, (cost, _) in found.items()}
    return {"device": str(device), **costs, "rescoring": rescoring}


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
        found = time_decoding(MosesIni.read(placed.ini), list(text_lines(placed.text)))
    for name in ("cold", "warm"):
        found[name]["seconds"] += placing
    return {**found, "placing": placing}


def _device() -> Device:
    """Return where the decoder lets networks compute."""
    return choose_device("auto", "fp32")


def _load(ini: MosesIni, source: Sequence[bytes]) -> SentenceDecoder:
    sentences = [words_of(line) for line in source]
    # So that no pass has to pay for what a process does once: one word, whose few n-grams hardly fill a cache.
    sentences.append(sentences[0][:1])
    decoder = SentenceDecoder(_with_empty_caches(ini), read_settings(ini), sentences)
    decoder.run(Listing(1), len(source))
    return decoder


def _decode(decoder: SentenceDecoder, sentences: int, size: int, device: Device) -> tuple[Json, list[NbestEntry]]:
    """Decode all sentences; return what that cost, a sentence, and their lists."""
    neural = [one for one in decoder.model.context_features if isinstance(one, NeuralLanguageModelFeature)]
    queries, served = sum(one.queries for one in neural), sum(one.served for one in neural)
    task, started = Listing(size), used_time(device)
    entries = [entry for number in range(sentences) for entry in decoder.run(task, number)]
    seconds = used_time(device) - started
    queries, served = sum(one.queries for one in neural) - queries, sum(one.served for one in neural) - served
    cost = {
        "seconds": seconds / sentences,
        "queries": queries / sentences,
        "served": served / queries if queries else None,
    }
    return cost, entries


def _with_empty_caches(ini: MosesIni) -> MosesIni:
    """Return a copy whose neural language models keep no scores in files: those would be of earlier decodings."""
    ini = ini.copy()
    for feature in ini.features():
        ini.remove_argument(feature.label, "cache")
    return ini
