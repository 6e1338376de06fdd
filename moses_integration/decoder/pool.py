"""Decode a text in one or several processes.

A search graph is too large to send between processes, so a *task* is sent to the process of the graph instead.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from pathlib import Path
from tempfile import TemporaryDirectory
from types import TracebackType
from typing import Generic, Protocol, TypeVar

from moses_integration.decoder.declaration import load_model
from moses_integration.decoder.graph import SearchGraph
from moses_integration.decoder.model import LogLinearModel
from moses_integration.decoder.phrases import Words, words_of
from moses_integration.decoder.search import Search
from moses_integration.decoder.settings import DecoderSettings
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
        graph = Search(self.model, self._settings.search, sentence).run(task.needs_arcs)
        return task(number, sentence, self.model, graph)


class DecoderPool:
    """Decodes all sentences of a text, repeatedly if needed, with any weights. A context manager."""

    def __init__(
        self,
        ini: MosesIni,
        settings: DecoderSettings,
        sentences: Sequence[Words],
        processes: int | None = None,
        scheduler: str | None = None,
        folder: Path | None = None,
    ) -> None:
        """Prepare the pool; processes start with the first `run`.

        Args:
            ini: the system.
            settings: of the search.
            sentences: the text.
            processes: see `start_workers`.
            scheduler: see `start_workers`.
            folder: folder that the workers of a scheduler share; by default that of temporary files.
        """
        self._count = len(sentences)
        self._processes = max(1, min(processes or available_cores(), -(-self._count // _CHUNK)))
        self._scheduler, self._folder = scheduler, folder
        self._ini, self._settings, self._sentences = ini, settings, sentences
        self._stack = ExitStack()

    def run(self, task: GraphTask[Result], weights: Weights) -> Iterator[Result]:
        """Yield the task's result for each sentence in order."""
        chunks = (range(first, min(first + _CHUNK, self._count)) for first in range(0, self._count, _CHUNK))
        for results in map_ordered(_Decoding(self._text, task, dict(weights)), chunks, self._workers):
            yield from results

    @cached_property
    def _workers(self) -> Workers:
        return self._stack.enter_context(start_workers(_KILLED, self._processes, self._scheduler))

    @cached_property
    def _text(self) -> _Text:
        """The text in a file, because it is too large to send with each task."""
        if self._folder is not None:
            self._folder.mkdir(parents=True, exist_ok=True)
        path = Path(self._stack.enter_context(TemporaryDirectory(prefix="decoding.", dir=self._folder)), "sentences")
        write_lines(path, (b" ".join(sentence) for sentence in self._sentences))
        self._stack.callback(_decoder.cache_clear)
        return _Text(path, self._ini, self._settings)

    def __enter__(self) -> DecoderPool:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stack.__exit__(kind, error, trace)


# In the workers


@dataclass(frozen=True)
class _Text:
    """Sentences and the system that decodes them."""

    path: Path
    """File of the sentences; its unique name is the key of the cached decoder."""
    ini: MosesIni = field(compare=False)
    settings: DecoderSettings = field(compare=False)


@dataclass(frozen=True)
class _Decoding(Generic[Result]):
    """Decodes a chunk of a text."""

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
