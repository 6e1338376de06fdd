"""`annotate` from one gzip file to another, with a network of the paper's sizes in 16 bit, start-up and all."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

import numpy as np

from experiments.machine import timed
from experiments.speed import command, scoring
from experiments.speed.pipeline import annotate_without_network
from phrasescore.device import choose_device
from phrasescore.files import open_output
from phrasescore.model_folder import TrainedModel, save_description, save_weights
from phrasescore.table.entry import Entry
from phrasescore.workers import available_cores

_ONE_IN = 8
"""The straightforward scorer gets one block of so many, or it would take most of the time."""
_DASK_WORKERS = 2


class Speed(NamedTuple):
    """Lines a second."""

    by_clock: float
    by_cpu: float
    """Of the processor's seconds, which work beside it disturbs less."""


@dataclass(frozen=True)
class Work:
    """Lines to annotate, and a network."""

    blocks: list[list[Entry]]
    model: TrainedModel
    table: Path
    network: Path
    """Where the model is."""

    @property
    def lines(self) -> int:
        """Return how many lines there are."""
        return sum(map(len, self.blocks))

    def annotate(self, device_name: str, *options: str) -> Speed:
        """Return the speed of `annotate` with some options."""
        settings = ("--device", device_name, "--precision", "bf16", *options)
        run = command.annotate(self.table, self.network, *settings)
        return Speed(self.lines / run.seconds, self.lines / run.cpu_seconds)


def measure(table: Path, device_name: str, lines: int, repetitions: int) -> dict[str, Any]:
    """Return lines a second of `annotate` by one process and by one for each core, and of the straightforward scorer.

    That has all cores, and its pairs are in memory already. Each repetition runs all of them, one after another.
    """
    with _work(table, lines) as work:
        some = work.blocks[::_ONE_IN]

        def straightforward() -> Speed:
            with timed() as timing:
                scoring.straightforward_scores(work.model, some, choose_device(device_name, "fp32"))
            lines = sum(map(len, some))
            return Speed(lines / timing.seconds, lines / timing.cpu_seconds)

        def by(processes: int) -> Callable[[], Speed]:
            return lambda: work.annotate(device_name, "--processes", str(processes))

        speed = _medians(
            {"straightforward": straightforward, **{f"processes_{n}": by(n) for n in sorted({1, available_cores()})}},
            repetitions,
        )
        slow = speed["straightforward"]
        return {
            "lines": work.lines,
            "repetitions": repetitions,
            "lines_per_second": {way: each.by_clock for way, each in speed.items()},
            "lines_per_cpu_second": {way: each.by_cpu for way, each in speed.items()},
            "times_straightforward": {way: each.by_clock / slow.by_clock for way, each in speed.items()},
            "times_straightforward_by_cpu": {way: each.by_cpu / slow.by_cpu for way, each in speed.items()},
        }


def measure_dask(table: Path, lines: int, repetitions: int) -> dict[str, Any]:
    """Return lines a second of `annotate` by two Dask workers and by two own processes, with the network and without.

    Without it the whole table is annotated. The workers stay and have imported what they need; processes import it in
    each run.
    """
    from distributed import LocalCluster

    with _work(table, lines) as work, LocalCluster(_DASK_WORKERS, threads_per_worker=1, dashboard_address=None) as dask:
        address = dask.scheduler_address
        annotate_without_network(work.table, scheduler=address)
        speed = _medians(
            {
                "dask": lambda: work.annotate("cpu", "--scheduler", address),
                "own": lambda: work.annotate("cpu", "--processes", str(_DASK_WORKERS)),
                "dask_without_network": lambda: _without_network(table, scheduler=address),
                "own_without_network": lambda: _without_network(table, processes=_DASK_WORKERS),
            },
            repetitions,
        )
        return {
            "workers": _DASK_WORKERS,
            "lines": work.lines,
            "repetitions": repetitions,
            "lines_per_second": {way: each.by_clock for way, each in speed.items()},
            **{
                f"share_of_own{network}": speed[f"dask{network}"].by_clock / speed[f"own{network}"].by_clock
                for network in ("", "_without_network")
            },
        }


@contextmanager
def _work(table: Path, lines: int) -> Iterator[Work]:
    """Write some lines of a table, and a network for them."""
    blocks, model = scoring.blocks_of_lines(table, lines), scoring.paper_model(table)
    with TemporaryDirectory() as folder:
        work = Work(blocks, model, Path(folder) / "lines.gz", Path(folder) / "network")
        with open_output(work.table) as stream:
            stream.writelines(entry.line for block in blocks for entry in block)
        work.network.mkdir()
        vocabularies = model.source_vocabulary, model.target_vocabulary
        save_description(work.network, model.network.config, model.direction, *vocabularies, {})
        save_weights(work.network, model.network)
        yield work


def _without_network(table: Path, **options: Any) -> Speed:
    counts = annotate_without_network(table, **options)
    return Speed(counts.lines_written / counts.seconds, math.nan)


def _medians(ways: dict[str, Callable[[], Speed]], repetitions: int) -> dict[str, Speed]:
    """Return the medians of what each way gives, one after another and all over again."""
    runs = [{name: way() for name, way in ways.items()} for _ in range(repetitions)]
    return {name: Speed(*map(float, np.median([run[name] for run in runs], axis=0))) for name in ways}
