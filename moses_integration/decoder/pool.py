"""Decode a text in one or several processes.

A search graph is too large to send between processes, so a *task* is sent to the process of the graph instead.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Generic, Protocol, TypeVar

from moses_integration.decoder.declaration import load_model
from moses_integration.decoder.graph import SearchGraph
from moses_integration.decoder.model import LogLinearModel
from moses_integration.decoder.phrases import Words, words_of
from moses_integration.decoder.search import Search
from moses_integration.decoder.settings import DecoderSettings, read_settings
from moses_integration.ini import MosesIni, Weights
from phrasescore.files import read_lines, write_lines
from phrasescore.workers import Workers, available_cores, map_ordered, start_workers

Result_co = TypeVar("Result_co", covariant=True)
Result = TypeVar("Result")

_KILLED = "decoding: a process was killed, probably because memory ran out; use fewer processes"
_CHUNK = 8
"""Sentences per chunk, few enough to balance the work."""


class GraphTask(Protocol[Result_co]):
    """A function of the search graph of a sentence. It must be picklable."""

    @property
    def needs_arcs(self) -> bool:
        """Whether the task extracts n-best lists, which need recombined hypotheses."""
        ...

    def __call__(self, number: int, sentence: Words, model: LogLinearModel, graph: SearchGraph) -> Result_co:
        """Return the result for a sentence."""
        ...


class SentenceDecoder:
    """Decodes the sentences that its model is loaded for."""

    def __init__(self, ini: MosesIni, settings: DecoderSettings, sentences: Sequence[Words]) -> None:
        self._settings, self._sentences = settings, sentences
        self.model = load_model(ini, sentences, settings)

    def run(self, task: GraphTask[Result], number: int) -> Result:
        """Decode one sentence and return the result of the task."""
        sentence = self._sentences[number]
        graph = Search(self.model, self._settings, sentence).run(task.needs_arcs)
        return task(number, sentence, self.model, graph)


@dataclass(frozen=True)
class _Text:
    """Sentences and the system that decodes them."""

    path: Path
    """File of the sentences; its unique name is the key of the cached decoder."""
    ini: MosesIni = field(compare=False)
    settings: DecoderSettings = field(compare=False)


@dataclass(frozen=True)
class DecoderPool:
    """Decodes all sentences of a text, repeatedly if needed, with any weights."""

    _text: _Text
    _count: int
    _workers: Workers

    def run(self, task: GraphTask[Result], weights: Weights) -> Iterator[Result]:
        """Yield the task's result for each sentence in order."""
        chunks = (range(first, min(first + _CHUNK, self._count)) for first in range(0, self._count, _CHUNK))
        for results in map_ordered(_Decoding(self._text, task, dict(weights)), chunks, self._workers):
            yield from results


@contextmanager
def start_decoders(
    ini: MosesIni,
    sentences: Sequence[Words],
    processes: int | None = None,
    scheduler: str | None = None,
    folder: Path | None = None,
    settings: DecoderSettings | None = None,
) -> Iterator[DecoderPool]:
    """Yield a pool that decodes a text; each of its processes loads the system when it gets its first sentences.

    Args:
        ini: the system.
        sentences: the text.
        processes: see `start_workers`.
        scheduler: see `start_workers`.
        folder: that the workers of a scheduler share; by default that of temporary files.
        settings: other settings than the ini's.
    """
    settings = settings or read_settings(ini)
    processes = max(1, min(processes or available_cores(), -(-len(sentences) // _CHUNK)))
    if folder is not None:
        folder.mkdir(parents=True, exist_ok=True)
    with (
        TemporaryDirectory(prefix="decoding.", dir=folder) as temporary,
        start_workers(_KILLED, processes, scheduler) as workers,
    ):
        # The text is in a file, because it is too large to send with each task.
        path = Path(temporary, "sentences")
        write_lines(path, (b" ".join(sentence) for sentence in sentences))
        try:
            yield DecoderPool(_Text(path, ini, settings), len(sentences), workers)
        finally:
            _decoder.cache_clear()


@dataclass(frozen=True)
class _Decoding(Generic[Result]):
    """Decodes a chunk of a text in a worker."""

    text: _Text
    task: GraphTask[Result]
    weights: Weights

    def __call__(self, numbers: range) -> list[Result]:
        decoder = _decoder(self.text)
        decoder.model.set_weights(self.weights)
        return [decoder.run(self.task, number) for number in numbers]


@lru_cache(maxsize=1)
def _decoder(text: _Text) -> SentenceDecoder:
    return SentenceDecoder(text.ini, text.settings, [words_of(line) for line in read_lines(text.path)])
