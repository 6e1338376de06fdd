"""Measure the decoding time of systems with networks, in seconds per sentence, in one process with one thread.

The same sentences are decoded twice. The first time, all caches are empty. The second time, as in tuning, the cache of
a neural language model has nearly all n-grams. The time excludes loading and tuning: one word is translated first, and
the time for the phrase table of this one word counts as loading. Times are CPU times, which hardly depend on other
load, or wall-clock times if networks run on a GPU.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

from experiments.steps import Json
from experiments.timing import timed
from moses_integration.decoder.cslm import NeuralLanguageModelFeature
from moses_integration.decoder.phrases import words_of
from moses_integration.decoder.pool import LoadDecoder, SentenceDecoder, Translating, load_decoder
from moses_integration.decoder.settings import DecoderSettings, read_settings
from moses_integration.ini import MosesIni, Weights
from moses_integration.nbest import parse_entry
from moses_integration.per_text.context_column import ContextColumn
from moses_integration.per_text.context_sections import without_column
from moses_integration.per_text.options_in_context import load_scored, score_text
from moses_integration.rescoring.features import FeatureSpec, load_features
from moses_integration.rescoring.reranking import add_scores, best_of, rerank
from phrasescore.device import choose_device, one_thread


@dataclass(frozen=True)
class Rescoring:
    """Reranking of n-best lists by networks."""

    specs: Sequence[FeatureSpec]
    """Features that score the lists."""
    weights: Weights
    """Weights of all features."""
    size: int
    """Number of translations per list."""


def time_translating(
    ini: MosesIni, source: Sequence[bytes], column: ContextColumn | None = None, rescoring: Rescoring | None = None
) -> Json:
    """Measure the decoding time.

    Args:
        ini: the tuned moses.ini; that of the decoder if lists are rescored.
        source: tokenised sentences.
        column: builds a per-text phrase table.
        rescoring: reranks n-best lists after decoding.

    Returns:
        `device`: device of the networks. `cold` and `warm`: `seconds` per sentence, `queries` of the neural language
        model per sentence, and `served`, the hit rate of its cache (None without queries). Both include these times in
        seconds per sentence: `indexing`, building the per-text table, and `rescoring`, scoring and reranking.

    Raises:
        UserError: a model cannot be loaded.
    """
    # The device that the decoder uses.
    device, seconds = choose_device("auto", "fp32"), dict[str, float]()

    @contextmanager
    def part(name: str) -> Iterator[None]:
        with timed() as timing:
            yield
        used = timing.cpu_seconds if device.torch_device.type == "cpu" else timing.seconds
        seconds[name] = used / len(source)

    load: LoadDecoder = partial(load_decoder, ini, _settings(ini))
    with TemporaryDirectory() as folder, one_thread():
        if column is not None:
            with part("loading"):
                _score(ini, [_one_word(source)], Path(folder) / "word", column)
            with part("indexing"):
                load = _score(ini, [*source, _one_word(source)], Path(folder) / "text", column)
            seconds["indexing"] = max(0.0, seconds["indexing"] - seconds.pop("loading"))
        decoder = _warmed_up(load, source)
        queries: Json = {}
        for name in ("cold", "warm"):
            with part(name):
                queries[name], lists = _decode(decoder, len(source), rescoring.size if rescoring else 0)
        if rescoring is not None:
            entries = [parse_entry(line.rstrip(b"\n")) for line in lists]
            scorers = load_features(rescoring.specs, device, ini.language_model())
            with part("rescoring"):
                best_of(rerank(add_scores(entries, source, scorers), rescoring.weights), len(source))
    more = {name: used for name, used in seconds.items() if name not in queries}
    whole = {name: {"seconds": seconds[name] + sum(more.values()), **found} for name, found in queries.items()}
    return {"device": str(device), **whole, **more}


def _score(ini: MosesIni, source: Sequence[bytes], folder: Path, column: ContextColumn) -> LoadDecoder:
    """Score the options of a text in context; return what loads its decoder."""
    folder.mkdir()
    score_text(ini, _settings(ini), [words_of(line) for line in source], column, folder, folder / "scores")
    return partial(load_scored, ini, _settings(ini), folder)


def _settings(ini: MosesIni) -> DecoderSettings:
    return read_settings(without_column(ini))


def _one_word(source: Sequence[bytes]) -> bytes:
    """Return a word to translate first: it has few translation options and adds few n-grams to caches."""
    return words_of(source[0])[0]


def _warmed_up(load: LoadDecoder, source: Sequence[bytes]) -> SentenceDecoder:
    """Return a decoder after all one-time initialisation, with nearly empty caches."""
    decoder = load([words_of(line) for line in [*source, _one_word(source)]])
    decoder.run(Translating(0), len(source))
    return decoder


def _decode(decoder: SentenceDecoder, sentences: int, size: int) -> tuple[Json, list[bytes]]:
    """Decode; return query counts of the neural language model and the lines of n-best lists of the given size."""
    neural = [one for one in decoder.model.language_models if isinstance(one, NeuralLanguageModelFeature)]
    for feature in neural:
        feature.queries = feature.served = 0
    lines = [line for number in range(sentences) for line in decoder.run(Translating(size), number).nbest]
    queries, served = sum(one.queries for one in neural), sum(one.served for one in neural)
    return {"queries": queries / sentences, "served": served / queries if queries else None}, lines
