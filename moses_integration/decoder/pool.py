"""Decoding a text in one process or several.

A search graph is too large to send between processes; what is wanted of it, a *task*, goes to where the graph is.
Processes are spawned, not forked: a forked child may inherit a locked lock from a library's thread.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import ExitStack
from types import TracebackType
from typing import Any, Protocol, TypeVar

from moses_integration.decoder.declaration import load_model
from moses_integration.decoder.graph import SearchGraph
from moses_integration.decoder.model import LogLinearModel
from moses_integration.decoder.phrases import Words
from moses_integration.decoder.search import Search
from moses_integration.decoder.settings import DecoderSettings
from moses_integration.ini import MosesIni, Weights
from moses_integration.processes import available_cores, worker_pool

Result_co = TypeVar("Result_co", covariant=True)
Result = TypeVar("Result")

_CHUNK = 8
"""Sentences that a process takes at a time: few enough to share the work evenly."""


class Task(Protocol[Result_co]):
    """What to make of the search graph of a sentence. It must be picklable."""

    @property
    def needs_arcs(self) -> bool:
        """Whether n-best lists are taken from the graph."""
        ...

    def __call__(self, number: int, sentence: Words, model: LogLinearModel, graph: SearchGraph) -> Result_co:
        """Return the result for sentence `number`."""
        ...


class Decoder:
    """A model, and the sentences it was loaded for."""

    def __init__(self, ini: MosesIni, settings: DecoderSettings, sentences: Sequence[Words]) -> None:
        """Load the model.

        Raises:
            UserError: see `load_model`.
        """
        self._settings, self._sentences = settings, sentences
        self.model = load_model(ini, sentences, settings.search.longest_phrase)
        self.model.drop_unknown = settings.drop_unknown

    def run(self, task: Task[Result], number: int) -> Result:
        """Decode one sentence and return what the task makes of it."""
        sentence = self._sentences[number]
        graph = Search(self.model, self._settings.search, sentence).run(task.needs_arcs)
        return task(number, sentence, self.model, graph)


class DecoderPool:
    """Decodes all sentences of a text, again and again with other weights if wanted. A context manager."""

    def __init__(
        self, ini: MosesIni, settings: DecoderSettings, sentences: Sequence[Words], processes: int | None = None
    ) -> None:
        self._count = len(sentences)
        self._processes = min(processes or available_cores(), -(-self._count // _CHUNK))
        self._arguments = (ini, settings, sentences)
        self._here: Decoder | None = None
        self._executor: ProcessPoolExecutor | None = None
        self._stack = ExitStack()

    def run(self, task: Task[Result], weights: Weights) -> Iterator[Result]:
        """Yield the task's result for each sentence, in order.

        Raises:
            UserError: the model cannot be loaded. That a process was killed is told when the pool is left.
        """
        chunks = [range(first, min(first + _CHUNK, self._count)) for first in range(0, self._count, _CHUNK)]
        if self._processes <= 1:
            if self._here is None:
                self._here = Decoder(*self._arguments)
            self._here.model.set_weights(weights)
            for chunk in chunks:
                yield from (self._here.run(task, number) for number in chunk)
            return
        if self._executor is None:
            killed = "decoding: a process was killed, most likely for want of memory; use fewer processes"
            self._executor = self._stack.enter_context(worker_pool(self._processes, killed, _start, self._arguments))
        futures = [self._executor.submit(_decode, task, dict(weights), chunk) for chunk in chunks]
        for future in futures:
            yield from future.result()

    def __enter__(self) -> DecoderPool:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stack.__exit__(kind, error, trace)


# In the worker processes

_arguments: tuple[MosesIni, DecoderSettings, Sequence[Words]]
_decoder: Decoder | None = None


def _start(*arguments: Any) -> None:
    """Keep what the decoder is made of. It is made with the first task, which can report a UserError."""
    global _arguments
    _arguments = arguments


def _decode(task: Task[Result], weights: Weights, numbers: range) -> list[Result]:
    global _decoder
    if _decoder is None:
        _compute_on_one_core(_arguments[0])
        _decoder = Decoder(*_arguments)
    _decoder.model.set_weights(weights)
    return [_decoder.run(task, number) for number in numbers]


def _compute_on_one_core(ini: MosesIni) -> None:
    """Keep PyTorch to one thread, if a neural language model brings it: the processes share the cores already."""
    if any(line.kind == "CSLM" for line in ini.features()):
        import torch

        torch.set_num_threads(1)
