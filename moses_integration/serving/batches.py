"""Sentences to translate, and their translation in batches, in processes that keep the systems loaded.

Sentences that arrive while all processes are busy form the next batches, so that a network scores them together. A
process that is killed, for instance because memory ran out, is replaced. The sentences of its batch are then translated
one at a time, so that only a sentence that kills processes fails.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import takewhile
from pathlib import Path
from typing import TYPE_CHECKING, Any

from moses_integration.ini import MosesIni
from phrasescore.errors import UserError, WorkersLostError
from phrasescore.plugins import load_plugins, loaded_plugins
from phrasescore.workers import ProcessPool

if TYPE_CHECKING:
    from moses_integration.serving.system import LoadedSystem
    from phrasescore.device import Precision

_LARGEST_BATCH = 16
"""Sentences of a batch; a larger one delays its first sentence more than it saves."""
_MOST_WAITING = 1_000
"""Sentences that wait; these are more than a minute of work even for captions."""
_TRIES = 2
_KILLED = "a process was killed, probably because memory ran out"
_OF_MOSES = (
    "source given target",
    "source given target, lexical",
    "target given source",
    "target given source, lexical",
)
Result = dict[str, Any]
"""A translation, for JSON."""


@dataclass(frozen=True)
class Sentence:
    """A sentence to translate, and what the result includes."""

    text: str
    is_prepared: bool = False
    nbest: int = 0
    distinct: bool = True
    options: bool = False
    """Whether the result has the other options of each phrase."""


@dataclass(frozen=True)
class Failure:
    """Why there is no translation, and the status of HTTP."""

    message: str
    status: int = 400


@dataclass(frozen=True)
class Limits:
    """What a server does for one request."""

    words: int = 200
    """Of a sentence."""
    sentences: int = 100
    nbest: int = 100
    seconds: float = 30.0


def column_names(ini: MosesIni) -> list[str]:
    """Name the columns of the phrase table: Moses' four, then by number, then those in context."""
    table = ini.phrase_table()
    of_moses = _OF_MOSES if table.width >= len(_OF_MOSES) else ()
    added = [f"column {number + 1}" for number in range(len(of_moses), table.width)]
    in_context = ["in context"] * (table.weight_count - table.width)
    return [*of_moses, *added, *in_context]


Batch = Sequence[tuple[str, Sentence]]
"""Sentences, each with the name of its system."""


@dataclass
class TranslationTask:
    """Translates batches in a process, which loads each system once."""

    systems: Mapping[str, MosesIni]
    folder: Path
    limits: Limits
    device: str
    precision: Precision
    plugins: tuple[str, ...] = field(default_factory=lambda: tuple(loaded_plugins()))
    _loaded: dict[str, LoadedSystem] = field(default_factory=dict)

    def __call__(self, batch: Batch) -> list[Result | Failure]:
        """Return the results in the order of the batch; an empty batch only loads."""
        # The process of the HTTP server does without PyTorch.
        from moses_integration.serving.system import LoadedSystem

        load_plugins(self.plugins)
        for name, ini in self.systems.items():
            if name not in self._loaded:
                self._loaded[name] = LoadedSystem(ini, self.folder, self.device, self.precision)
        results: dict[int, Result | Failure] = {}
        for name, system in self._loaded.items():
            numbers = [number for number, (wanted, _) in enumerate(batch) if wanted == name]
            translated = system.translate([batch[number][1] for number in numbers], self.limits)
            results.update(zip(numbers, translated, strict=True))
        return [results[number] for number in range(len(batch))]


class BusyError(Exception):
    """Too many sentences wait."""


@dataclass(frozen=True)
class _Waiting:
    system: str
    sentence: Sentence
    result: asyncio.Future[Result | Failure]
    alone: bool = False
    """Whether it is the only sentence of its batch, because an earlier batch killed processes."""


class TranslationQueue:
    """Distributes sentences among processes."""

    def __init__(self, task: TranslationTask, processes: int) -> None:
        self._task, self._free = task, processes
        self._pool = ProcessPool(_KILLED, processes, tries=_TRIES)
        self._waiting: deque[_Waiting] = deque()
        self._running: set[asyncio.Task[None]] = set()

    async def load(self) -> None:
        """Load the systems in all processes; the first one writes the files that all share."""
        await self._run_pool([])
        await asyncio.gather(*map(asyncio.wrap_future, self._pool.submit_to_each(self._task, [])))

    def close(self) -> None:
        self._pool.close()

    @property
    def waiting(self) -> int:
        return len(self._waiting)

    async def translate(self, system: str, sentences: Iterable[Sentence]) -> list[Result | Failure]:
        """Return the result of each sentence; a BusyError if too many wait already."""
        loop = asyncio.get_running_loop()
        new = [_Waiting(system, sentence, loop.create_future()) for sentence in sentences]
        if self._waiting and len(self._waiting) + len(new) > _MOST_WAITING:
            raise BusyError
        self._waiting.extend(new)
        # Sentences that arrive in the same step of the loop belong to one batch.
        loop.call_soon(self._start)
        return await asyncio.gather(*(one.result for one in new))

    def _start(self) -> None:
        """Start batches while a process is free."""
        while self._free and self._waiting:
            batch = self._next_batch()
            if batch:
                self._free -= 1
                running = asyncio.create_task(self._run(batch))
                self._running.add(running)
                running.add_done_callback(self._running.discard)

    def _next_batch(self) -> list[_Waiting]:
        """Remove a fair share of the sentences that wait; drop those whose request has ended."""
        size = 1 if self._waiting[0].alone else min(_LARGEST_BATCH, -(-len(self._waiting) // self._free))
        batch = list(takewhile(lambda one: size == 1 or not one.alone, list(self._waiting)[:size]))
        for _ in batch:
            self._waiting.popleft()
        return [one for one in batch if not one.result.done()]

    async def _run(self, batch: list[_Waiting]) -> None:
        try:
            results = await self._run_pool([(one.system, one.sentence) for one in batch])
        except WorkersLostError as error:
            if len(batch) > 1:
                self._waiting.extendleft(_Waiting(one.system, one.sentence, one.result, True) for one in batch)
                results = []
            else:
                results = [Failure(f"{error}; give a shorter sentence", 500)]
        except UserError as error:
            results = [Failure(f"{error}", 500)] * len(batch)
        except Exception as error:
            # A fault of the software: the server logs it, and the clients need not wait for their time limit.
            results = []
            for one in batch:
                if not one.result.done():
                    one.result.set_exception(error)
        finally:
            self._free += 1
            self._start()
        for one, result in zip(batch, results, strict=False):
            if not one.result.done():
                one.result.set_result(result)

    async def _run_pool(self, batch: Batch) -> list[Result | Failure]:
        results: list[Result | Failure] = await asyncio.wrap_future(self._pool.submit(self._task, batch))
        return results
