"""Decode a text in one or several processes, and format the n-best lists like Moses (moses/Manager.cpp).

A search graph is too large to send between processes, so a *task* is sent to the process of the graph instead.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Protocol, TypeVar

from moses_integration.decoder.declaration import load_model
from moses_integration.decoder.graph import Derivation, SearchGraph
from moses_integration.decoder.model import LogLinearModel
from moses_integration.decoder.phrases import Words, words_of
from moses_integration.decoder.search import Search
from moses_integration.decoder.settings import DecoderSettings
from moses_integration.decoder.translation_options import Options, collect_options
from moses_integration.ini import MosesIni, Weights
from moses_integration.nbest import NbestEntry, format_features, format_number
from phrasescore.files import read_lines, write_lines
from phrasescore.workers import Workers, available_cores, map_ordered, start_workers

Result_co = TypeVar("Result_co", covariant=True)
Result = TypeVar("Result")

_CHUNK = 8
"""Sentences per chunk, few enough to balance the work."""


class GraphTask(Protocol[Result_co]):
    """A picklable function of the search graph of a sentence."""

    @property
    def needs_arcs(self) -> bool:
        """Whether the task extracts n-best lists, which need recombined hypotheses."""

    def __call__(self, number: int, sentence: Words, model: LogLinearModel, graph: SearchGraph) -> Result_co: ...


class SentenceDecoder:
    """Decodes the sentences of a text."""

    def __init__(
        self,
        model: LogLinearModel,
        settings: DecoderSettings,
        sentences: Sequence[Words],
        options: Callable[[int], Options],
    ) -> None:
        """Take the translation options of each sentence, by its number."""
        self.model, self._settings, self._sentences, self._options = model, settings, sentences, options

    def run(self, task: GraphTask[Result], number: int) -> Result:
        sentence = self._sentences[number]
        graph = Search(self.model, self._settings, sentence, self._options(number)).run(task.needs_arcs)
        return task(number, sentence, self.model, graph)


LoadDecoder = Callable[[Sequence[Words]], SentenceDecoder]
"""Loads a system for the sentences of a text; picklable, because each process of a pool calls it."""


def load_decoder(ini: MosesIni, settings: DecoderSettings, sentences: Sequence[Words]) -> SentenceDecoder:
    """Load the system of an ini without the column in context."""
    model = load_model(ini, sentences, settings)
    longest = settings.longest_phrase
    return SentenceDecoder(model, settings, sentences, lambda n: collect_options(model, sentences[n], longest))


@dataclass(frozen=True)
class DecoderPool:
    """Decodes all sentences of a text, repeatedly if needed, with any weights."""

    _path: Path
    """File of the sentences; its unique name is the key of the loaded decoder."""
    _load: LoadDecoder
    _count: int
    _workers: Workers

    def run(self, task: GraphTask[Result], weights: Weights) -> Iterator[Result]:
        chunks = (range(first, min(first + _CHUNK, self._count)) for first in range(0, self._count, _CHUNK))
        decode = partial(_decode, self._path, self._load, task, dict(weights))
        for results in map_ordered(decode, chunks, self._workers):
            yield from results


@contextmanager
def start_decoders(
    load: LoadDecoder,
    sentences: Sequence[Words],
    processes: int | None = None,
    scheduler: str | None = None,
    folder: Path | None = None,
) -> Iterator[DecoderPool]:
    """Yield a pool that decodes a text; each of its processes loads the system when it gets its first sentences.

    `folder` is one that the workers of a scheduler share.
    """
    processes = max(1, min(processes or available_cores(), -(-len(sentences) // _CHUNK)))
    if folder is not None:
        folder.mkdir(parents=True, exist_ok=True)
    with (
        TemporaryDirectory(prefix="decoding.", dir=folder) as temporary,
        start_workers("decoding", processes, scheduler) as workers,
    ):
        # The text is in a file, because it is too large to send with each task.
        path = Path(temporary, "sentences")
        write_lines(path, (b" ".join(sentence) for sentence in sentences))
        try:
            yield DecoderPool(path, load, len(sentences), workers)
        finally:
            _loaded.clear()


_loaded: dict[Path, SentenceDecoder] = {}


def _decode(text: Path, load: LoadDecoder, task: GraphTask[Result], weights: Weights, numbers: range) -> list[Result]:
    """Decode sentences of a text in a worker, which keeps the system of the latest text."""
    decoder = _loaded.get(text)
    if decoder is None:
        _loaded.clear()
        decoder = _loaded[text] = load([words_of(line) for line in read_lines(text)])
    decoder.model.set_weights(weights)
    return [decoder.run(task, number) for number in numbers]


@dataclass(frozen=True)
class Translation:
    """The output for one sentence."""

    line: bytes
    """The translation."""
    nbest: list[bytes]
    unknown: int
    """Number of words that are not in the phrase table."""


@dataclass(frozen=True)
class Translating:
    """Task: translate a sentence and format the results."""

    nbest: int = 0
    """Size of the list of distinct translations."""

    @property
    def needs_arcs(self) -> bool:
        return self.nbest > 0

    def __call__(self, number: int, sentence: Words, model: LogLinearModel, graph: SearchGraph) -> Translation:
        found = graph.n_best(self.nbest, distinct=True) if self.nbest else []
        lines = [nbest_entry(model, number, one).to_line() for one in found]
        return Translation(translation_line(graph.best()), lines, len(graph.options.copied_words()))


def translation_line(derivation: Derivation | None) -> bytes:
    """Return the translation of a sentence, which is empty if the search failed."""
    return b" ".join(derivation.words) if derivation else b""


def nbest_entry(model: LogLinearModel, sentence: int, derivation: Derivation) -> NbestEntry:
    """Return a derivation as an entry of an n-best list, with the values of the tuneable features."""
    ranges, links, first = [], [], 0
    for step in derivation.steps:
        end = first + len(step.target.words)
        ranges.append(_range(step.start, step.end) + b"=" + _range(first, end - 1))
        links += [b"%d-%d " % (step.start + s, first + t) for s, t in sorted(step.target.alignment)]
        first = end
    extras = b" ".join(ranges), b"".join(links) or b" "
    values = {f.label: derivation.values_F[model.columns[f.label]].tolist() for f in model.features if f.tuneable}
    words = b" ".join(derivation.words)
    return NbestEntry(sentence, words, format_features(values), format_number(derivation.score), extras)


def _range(first: int, last: int) -> bytes:
    return b"%d-%d" % (first, last) if first < last else b"%d" % first
