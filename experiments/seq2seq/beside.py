"""Systems of a comparison, measured one after the other, or several beside each other in processes of their own."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from functools import partial

from experiments.seq2seq.config import System
from experiments.training import Json
from phrasescore.device import settle_memory
from phrasescore.workers import available_cores, share_work

Work = Callable[[System], Json]


def each(work: Work, systems: Sequence[System], processes: int) -> Iterator[Json]:
    """Yield what `work` gives for each system, in their order.

    Args:
        work: what to do; with several processes, something that can be pickled.
        systems: what to do it with.
        processes: how many to work on at once; they share the cores.

    Raises:
        UserError: a system fails, or its process is killed.
    """
    if processes == 1:
        settle_memory()
        yield from map(work, systems)
        return
    killed = "training: a process was killed, most likely for want of memory; use fewer --processes"
    threads = max(1, available_cores() // processes)
    with share_work(killed, processes, threads=threads, tries=1) as workers:
        yield from workers.in_order(partial(_done, work), systems)


def progress_options(processes: int) -> list[str]:
    """Return options of `phrasescore train`: what several trainings show of their progress would run together."""
    return [] if processes == 1 else ["--quiet"]


def _done(work: Work, system: System) -> Json:
    settle_memory()
    try:
        return work(system)
    except SystemExit as stopped:
        # A training that a signal stops says so once it has kept its state. The others would go on with another system.
        os._exit(stopped.code if isinstance(stopped.code, int) else 1)
