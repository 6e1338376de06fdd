"""Decoding a text in one process or several.

A search graph is too large to send between processes; what is wanted of it, a *task*, goes to where the graph is.
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

_KILLED = "decoding: a process was killed, most likely for want of memory; use fewer processes"
_CHUNK = 8
"""Sentences that a process takes at a time: few enough to share the work evenly."""


class GraphTask(Protocol[Result_co]):
    """What to make of the search graph of a sentence. It must be picklable."""

    @property
    def needs_arcs(self) -> bool:
        """Whether n-best lists are taken from the graph."""
        ...

    def __call__(self, number: int, sentence: Words, model: LogLinearModel, graph: SearchGraph) -> Result_co:
        """Return the result for sentence `number`."""
        ...


class SentenceDecoder:
    """A model, and the sentences it was loaded for."""

    def __init__(self, ini: MosesIni, settings: DecoderSettings, sentences: Sequence[Words]) -> None:
        """Load the model."""
        self._settings, self._sentences = settings, sentences
        self.model = load_model(ini, sentences, settings)

    def run(self, task: GraphTask[Result], number: int) -> Result:
        """Decode one sentence and return what the task makes of it."""
        sentence = self._sentences[number]
        graph = Search(self.model, self._settings.search, sentence).run(task.needs_arcs)
        return task(number, sentence, self.model, graph)


class DecoderPool:
    """Decodes all sentences of a text, again and again with other weights if wanted. A context manager."""

    def __init__(
        self,
        ini: MosesIni,
        settings: DecoderSettings,
        sentences: Sequence[Words],
        processes: int | None = None,
        scheduler: str | None = None,
        folder: Path | None = None,
    ) -> None:
        """Start nothing yet.

        Args:
            ini: the system.
            settings: of the search.
            sentences: the text.
            processes: see `start_workers`.
            scheduler: likewise.
            folder: that the workers of a scheduler see, too; None for that of temporary files.
        """
        self._count = len(sentences)
        self._processes = max(1, min(processes or available_cores(), -(-self._count // _CHUNK)))
        self._scheduler, self._folder = scheduler, folder
        self._ini, self._settings, self._sentences = ini, settings, sentences
        self._stack = ExitStack()

    def run(self, task: GraphTask[Result], weights: Weights) -> Iterator[Result]:
        """Yield the task's result for each sentence, in order."""
        chunks = (range(first, min(first + _CHUNK, self._count)) for first in range(0, self._count, _CHUNK))
        for results in map_ordered(_Decoding(self._text, task, dict(weights)), chunks, self._workers):
            yield from results

    @cached_property
    def _workers(self) -> Workers:
        return self._stack.enter_context(start_workers(_KILLED, self._processes, self._scheduler))

    @cached_property
    def _text(self) -> _Text:
        """What is decoded by what, with the sentences in a file: all of them are too many to go with each task."""
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


# Where the work is done


@dataclass(frozen=True)
class _Text:
    """Sentences, and the system that decodes them."""

    path: Path
    """Of the sentences: by this name, which no other text has, the decoder that is loaded for them is known."""
    ini: MosesIni = field(compare=False)
    settings: DecoderSettings = field(compare=False)


@dataclass(frozen=True)
class _Decoding(Generic[Result]):
    """Decodes some sentences of a text."""

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
